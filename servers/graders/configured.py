"""The router that a server's settings describe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..environment import DefinitionError
from .judge import JudgeEndpoint
from .registry import BUILT_IN, Grader, load
from .routing import ANSWER_COLUMNS, Router, columns_of


def router_of(
    grader: Any,
    graders: str | Sequence[str] = (),
    answer: str = "",
    judge_url: str = "",
    judge_model: str = "",
    judge_options: Mapping[str, Any] | None = None,
    sandbox: Any = None,
) -> Router:
    """The router of a server's settings. Raises `DefinitionError`."""
    extra: dict[str, Grader] = {}
    for target in [graders] if isinstance(graders, str) else graders:
        made = load(target)
        extra[made.name] = made
    resources = {} if sandbox is None else {"sandbox": sandbox}
    if judge_url:
        resources["judge_endpoint"] = JudgeEndpoint.from_settings(judge_url, judge_model, judge_options)
    default = _named(grader, extra)
    columns = columns_of((answer,) if answer else ANSWER_COLUMNS)
    return Router(default, extra, columns, resources)


def _named(grader: Any, extra: dict[str, Grader]) -> Any:
    """The setting `grader` with functions of files replaced by their names, which `extra` gets."""
    if isinstance(grader, list):
        return [_named(item, extra) for item in grader]
    if isinstance(grader, Mapping):
        return {**grader, "name": _named(grader.get("name"), extra)}
    if isinstance(grader, str) and ":" in grader:
        made = load(grader)
        extra[made.name] = made
        return made.name
    if isinstance(grader, str) and grader not in BUILT_IN and grader not in extra:
        known = ", ".join([*extra, *BUILT_IN])
        raise DefinitionError(f"no grader is called {grader!r}; there are: {known}; or name file.py:function")
    return grader
