"""`gymwire rows check`: every kind of finding, once planted; and what is right stays without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from gymwire.servers import Environment, Transcript
from gymwire.servers.cli import build
from gymwire.servers.types import PARAMS_KEY
from pydantic import BaseModel
from typer.testing import CliRunner

from tests.row_files import row_file

DATASETS = Path(__file__).parents[2] / "datasets"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "description": "A number."}}}


def tool(**others: Any) -> dict[str, Any]:
    return {"type": "function", "name": "add", "description": "Adds.", "parameters": SCHEMA, **others}


def deep(levels: int) -> dict[str, Any]:
    schema = SCHEMA
    for _ in range(levels):
        schema = {"type": "object", "properties": {"n": schema | {"description": "Another."}}}
    return schema


def gym(text: str, *tools: dict[str, Any], **data: Any) -> dict[str, Any]:
    return {PARAMS_KEY: {"input": text, **({"tools": list(tools)} if tools else {})}, **data}


def checked(folder: Path, *files: list[Any], options: tuple[str, ...] = ()) -> tuple[int, dict[str, Any]]:
    """The exit status and the findings for the files a.jsonl, b.jsonl ..."""
    for name, rows in zip("abc", files, strict=False):
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        (folder / f"{name}.jsonl").write_text("".join(line + "\n" for line in lines))
    done = run(*(str(folder / f"{name}.jsonl") for name, _ in zip("abc", files, strict=False)), *options, "--json")
    assert done.exit_code in (0, 1), done.output
    return done.exit_code, json.loads(done.stdout)


def run(*arguments: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(build("rows"), ["rows", "check", *map(str, arguments)])


def found(report: dict[str, Any]) -> dict[str, int]:
    return {kind: item["count"] for kind, item in report["findings"].items() if item["count"]}


PLANTED: list[tuple[list[list[Any]], dict[str, int], int, str]] = [
    ([["{", gym("a")]], {"errors": 1}, 1, "a.jsonl:1: not JSON"),
    ([[gym("a"), {"answer": 1}]], {"errors": 1}, 1, "a.jsonl:2: no prompt column: the row has `answer`"),
    ([[{"question": "a", "problem": "b"}]], {"errors": 1}, 1, "`question`, `problem` may each be the prompt"),
    ([[gym("")], [{PARAMS_KEY: {"input": []}}]], {"errors": 1}, 1, "b.jsonl:1: the prompt is empty"),
    ([[gym("a"), gym("b"), gym("a", _ng_task_index=4)]], {"duplicates": 1}, 0, "a.jsonl:3: the same row as"),
    ([[gym("a")], [gym("a")]], {"shared prompts": 1}, 1, "b.jsonl:1: the prompt of "),
    ([[gym("Is it  so?")], [{"prompt": "is it so?"}]], {"shared prompts": 1}, 1, "in another row"),
    ([[gym("a", tool(name="a b"))]], {"tools": 1}, 1, "'a b' does not match"),
    ([[gym("a", tool(), tool())]], {"tools": 1}, 1, "'add' is there 2 times"),
    ([[gym("a", tool(parameters={"type": "array"}))]], {"tools": 1}, 1, "has the type 'array', not 'object'"),
    ([[gym("a", tool(parameters={"type": "object", "required": 1}))]], {"tools": 1}, 1, "is no JSON schema"),
    ([[gym("a", tool(parameters=deep(300)))]], {"tools": 1}, 1, "nested 603 deep, more than 100"),
    ([[gym("a", tool(parameters=SCHEMA | {"default": [10**30, "\ud800"]}))]], {}, 0, ""),
    ([[]], {"errors": 1}, 1, "a.jsonl: it has no rows"),
    ([[gym(text, tool(description="")) for text in "ab"]], {"descriptions": 1}, 0, "no description (in 2 rows)"),
    ([[gym("Say: Reykjavik", answer="Reykjavik")]], {"label leaks": 1}, 0, "`answer` stands in the prompt"),
    ([[gym("Yes or no?", answer="no"), gym("Reykjavik", city="Reykjavik")]], {}, 0, ""),
]


@pytest.mark.parametrize(("files", "kinds", "status", "says"), PLANTED)
def test_what_is_planted_is_found_and_nothing_else(
    files: list[list[Any]], kinds: dict[str, int], status: int, says: str, tmp_path: Path
) -> None:
    code, report = checked(tmp_path, *files)
    assert (code, found(report)) == (status, kinds)
    assert says in str(report["findings"]) and report["wrong"] is bool(status)
    assert checked(tmp_path, *files, options=("--strict",))[0] == (1 if kinds else 0)


def test_the_first_twenty_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    _, report = checked(tmp_path, [{"a": number} for number in range(30)])
    errors = report["findings"]["errors"]
    assert errors["count"] == 30 and len(errors["shown"]) == 20
    assert "and 10 more" in run(tmp_path / "a.jsonl").stdout


def test_rows_are_counted_by_form(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "b"}]
    talk = [{"from": "human", "value": "d"}, {"from": "gpt", "value": "no"}]
    _, report = checked(tmp_path, [gym("a"), {"messages": said}, {"question": "c"}, {"conversations": talk}])
    forms = {"nemo-gym": 1, "chat": 1, "column `question`": 1, "column `conversations`": 1}
    assert report["files"] == [{"file": str(tmp_path / "a.jsonl"), "rows": 4, "forms": forms}] and not found(report)


class Strict(Environment):
    """Takes a number."""

    name = "strict"

    class Data(BaseModel):
        wanted: int

    def verify(self, transcript: Transcript) -> float:
        return 0.0


def test_the_environment_is_asked(tmp_path: Path) -> None:
    rows = [gym("a", wanted=1), gym("b", wanted="x"), gym("c", tool(), wanted=2), gym("d")]
    code, report = checked(tmp_path, rows, options=("--env", f"{__name__}:Strict"))
    refused = report["findings"]["refused"]["shown"]
    assert code == 1 and [line.split(":")[1] for line in refused] == ["2", "3", "4"]
    assert "wanted" in refused[0] and "'add', which strict does not serve" in refused[1]


def test_the_bundled_rows_fit_their_environments_and_share_no_task() -> None:
    for name in ("battery", "graded"):
        files = (DATASETS / name / "train.jsonl", DATASETS / name / "eval.jsonl")
        done = run(*files, "--env", name)
        assert done.exit_code == 0, done.stdout


def test_rows_that_others_wrote_are_read_whole() -> None:
    done = run(row_file("workplace_assistant.jsonl"), "--strict")
    assert done.exit_code == 0 and "5 rows as nemo-gym (5)\nnothing is wrong" in done.stdout


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    done = run(tmp_path / "none.jsonl")
    assert done.exit_code == 2 and "none.jsonl: cannot be read" in done.stderr
