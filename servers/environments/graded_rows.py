"""Rows that people bring: NeMo Gym rows, or lines with a prompt column and an answer column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..graders import Router
from ..graders.numbers import NotNumeric, TooLarge, read
from ..graders.routing import METADATA, OPTION_COLUMNS, VERIFIER, names_in
from ..row_columns import PROMPT_COLUMNS, column_messages, listed
from ..row_reader import RowReader
from ..types import PARAMS_KEY, Row, RowError
from ..wording import counted

MAX_SHOWN = 6


class GradedReader(RowReader):
    """Reads lines of either form, and checks that each could be graded."""

    def __init__(self, router: Router, tools: Iterable[str], prompt: str = "", system: str = "") -> None:
        self._router, self._tools, self._system = router, frozenset(tools), system
        self._columns = (prompt,) if prompt else PROMPT_COLUMNS
        self.needs_sandbox = router.default is not None and any(
            "sandbox" in router.grader(name).parameters for name in names_in(router.default)
        )
        self._prompts: Counter[str] = Counter()
        self._answers: Counter[str] = Counter()
        self._graders: Counter[str] = Counter()

    def read(self, raw: Any) -> Row:
        """The row. Raises `RowError` that says which columns it has, and the fix."""
        if not isinstance(raw, Mapping):
            raise RowError(f"a row is a JSON object, got {type(raw).__name__}")
        row = Row.from_json(raw) if PARAMS_KEY in raw else self._from_columns(raw)
        if not row.prompt:
            raise RowError("the prompt is empty")
        missing = [tool.name for tool in row.tools or () if tool.name not in self._tools]
        if missing:
            raise RowError(
                f"the row offers the tool {missing[0]!r}, which nothing here serves: --tools FILE.py:FUNCTION"
            )
        self._check(row)
        return row

    def _from_columns(self, raw: Mapping[str, Any]) -> Row:
        column = next((name for name in self._columns if raw.get(name) not in (None, "", [])), None)
        if column is None:
            empty = next((name for name in self._columns if name in raw), None)
            if empty is not None:
                raise RowError(f"the prompt column `{empty}` is empty")
            tried = f"column {self._columns[0]!r}" if len(self._columns) == 1 else "prompt column"
            raise RowError(f"no {tried}: the row has {listed(raw)}; name one: --set prompt=COLUMN")
        self._prompts[f"`{column}`"] += 1
        messages = column_messages(raw[column], column)
        if not messages or messages[-1]["role"] == "assistant":
            raise RowError(f"the prompt column `{column}` ends with an answer; leave that to the policy")
        if self._system:
            messages.insert(0, {"role": "system", "content": self._system})
        return Row(prompt=messages, data=dict(raw))  # graders may ask for the prompt's column, too

    def _check(self, row: Row) -> None:
        if self._router.default is None and row.data.get(VERIFIER) is None:
            fits = suggestion(row, self._router.columns["expected_answer"])
            names = ", ".join(self._router.names())
            raise RowError(f"no grader is named: --set grader={fits}, or a column `{VERIFIER}`; there are {names}")
        plan = self._router.plan(row)
        self.needs_sandbox |= any("sandbox" in entry.grader.parameters for entry in plan.entries)
        self._graders[" + ".join(entry.component for entry in plan.entries)] += 1
        column = answer_column(row, self._router.columns["expected_answer"])
        if column is not None and any("expected_answer" in entry.fields for entry in plan.entries):
            self._answers[f"`{column}`"] += 1

    def summary(self) -> str:
        """Which columns and graders were taken, for how many rows."""
        rows = sum(self._graders.values())
        prompts = Counter(self._prompts)
        prompts[f"`{PARAMS_KEY}`"] += rows - sum(prompts.values())
        said = [f"{counted(rows, 'row')}: prompt from {_counted(prompts)}"]
        if self._answers:
            said.append(f"expected answer from {_counted(self._answers)}")
        said.append(f"graded by {_counted(self._graders)}")
        return "; ".join(said)


def _counted(counter: Counter[str]) -> str:
    """The names, with how often where there are several."""
    found = [(name, count) for name, count in counter.most_common() if count]
    if len(found) == 1:
        return found[0][0]
    shown = ", ".join(f"{name} ({count:,})" for name, count in found[:MAX_SHOWN])
    return shown + (f" and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else "")


def answer_column(row: Row, columns: Sequence[str]) -> str | None:
    """Which column the expected answer is taken from."""
    inner = row.data.get(METADATA)
    for column in columns:
        if row.data.get(column) is not None:
            return column
        if isinstance(inner, Mapping) and inner.get(column) is not None:
            return f"{METADATA}.{column}"
    return None


def suggestion(row: Row, columns: Sequence[str]) -> str:
    """A grader that would fit the row's answer."""
    column = answer_column(row, columns)
    value = row.data.get(column) if column is not None else None
    if not row.data.keys().isdisjoint(OPTION_COLUMNS):
        return "choice"
    text = str(value).rpartition("####")[2].strip()
    try:
        read(text)
        return "math"
    except TooLarge:
        return "math"
    except NotNumeric:
        return "math" if "\\" in text else "qa_match" if value is not None else "NAME"
