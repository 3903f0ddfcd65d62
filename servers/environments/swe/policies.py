"""Scripted policies of `swe`."""

from __future__ import annotations

import re
from random import Random

from ...policies import Call, Script
from ...types import Row
from .repositories import load


def paths_in(prompt: str) -> list[str]:
    """The repository's modules, as the prompt lists them."""
    return [path for path in re.findall(r"^(\S+\.py)$", prompt, flags=re.MULTILINE) if not path.startswith("tests/")]


def random(row: Row, rng: Random) -> Script:
    """Runs the visible tests and hands the repository in as it is."""
    yield Call("bash", {"command": "python -m unittest"})
    yield Call("submit")
    return "Done."


def rule(row: Row, rng: Random) -> Script:
    """Takes every bug for a comparison that is off by one: in each module, makes the first `<` a `<=`."""
    for path in paths_in(row.prompt[-1]["content"]):
        shown = yield Call("read_file", {"path": path})
        lines = [line[6:] for line in shown.text.splitlines()]
        guess = next((line for line in lines if " < " in line and lines.count(line) == 1), None)
        if guess is not None:
            yield Call("edit_file", {"path": path, "old": guess, "new": guess.replace(" < ", " <= ", 1)})
    yield Call("submit")
    return "Done."


def oracle(row: Row, rng: Random) -> Script:
    bug = load(row.data["repository"]).bugs[row.data["bug"]]
    yield Call("edit_file", {"path": bug.file, "old": bug.wrong, "new": bug.right})
    yield Call("submit")
    return "Done."


POLICIES = {"random": random, "rule": rule, "oracle": oracle}
