"""`gymwire rows convert`: held-out rows by content, a system message from a file, parquet and back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet
import pytest
from click.testing import Result
from gymwire.servers.cli import build
from gymwire.servers.row_files import Problems, records
from gymwire.servers.row_writers import write_files
from gymwire.servers.types import PARAMS_KEY
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import datasets
from tests.row_files import row_file
from tests.servers.test_row_forms import FILES, rows

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=6,
)
tables = st.lists(st.dictionaries(st.sampled_from(["x", "y", "z"]), values, min_size=1), min_size=1, max_size=4)


def run(command: str, *arguments: str | Path) -> Result:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(build("rows"), ["rows", command, *map(str, arguments)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def convert(*arguments: str | Path) -> Result:
    done = run("convert", *arguments)
    assert done.exit_code == 0, done.stderr
    return done


def write(path: Path, raws: list[Any]) -> Path:
    path.write_text("".join(json.dumps(raw) + "\n" for raw in raws))
    return path


def read(path: Path) -> list[Any]:
    problems = Problems()
    found = [raw for _, raw in records(path, problems)]
    problems.raise_any()
    return found


def questions(numbers: range, **others: Any) -> list[Any]:
    return [{"question": f"What is {number} + 1?", "answer": str(number + 1), **others} for number in numbers]


def test_held_out_rows_stay_so_whatever_the_order_and_what_is_added(tmp_path: Path) -> None:
    held: list[set[str]] = []
    shuffled = questions(range(300))
    Random(1).shuffle(shuffled)
    for name, raws in (("a", questions(range(200))), ("b", shuffled)):
        (tmp_path / name).mkdir()
        convert(write(tmp_path / f"{name}.jsonl", raws), tmp_path / name / "train.jsonl", "--held-out", "0.2")
        kept = {raw["question"] for raw in read(tmp_path / name / "train.jsonl")}
        held.append({raw["question"] for raw in read(tmp_path / name / "eval.jsonl")})
        assert not kept & held[-1] and len(kept | held[-1]) == len(raws)
    first = {raw["question"] for raw in questions(range(200))}
    assert held[1] & first == held[0] and 20 < len(held[0]) < 60


def test_equal_prompts_are_on_one_side_and_the_check_finds_none_shared(tmp_path: Path) -> None:
    raws = [*questions(range(40), by="a"), *questions(range(40), by="b", system="Add.")]
    out = tmp_path / "rows.jsonl"
    convert(write(tmp_path / "all.jsonl", raws), out, "--held-out", "0.3", "--system", "Be brief.")
    assert len(read(out)) + len(read(tmp_path / "rows-eval.jsonl")) == 80
    assert run("check", out, tmp_path / "rows-eval.jsonl").exit_code == 0


def test_rows_with_one_prompt_are_split_by_all_they_say(tmp_path: Path) -> None:
    source = write(tmp_path / "all.jsonl", [{"prompt": "Play.", "seed": seed} for seed in range(50)])
    refused = run("convert", source, tmp_path / "train.jsonl", "--held-out", "0.5")
    assert refused.exit_code == 2 and "--split-by row" in refused.stderr and list(tmp_path.iterdir()) == [source]
    convert(source, tmp_path / "train.jsonl", "--held-out", "0.5", "--split-by", "row")
    assert 10 < len(read(tmp_path / "eval.jsonl")) < 40


def test_the_split_is_the_same_in_every_form(tmp_path: Path) -> None:
    source = row_file("workplace_assistant.jsonl")
    held = {}
    for by in ("prompt", "row"):
        for to, end in (("nemo-gym", "jsonl"), ("chat", "jsonl"), ("parquet", "parquet")):
            out = tmp_path / f"{by}-{to}.{end}"
            convert(source, out, "--to", to, "--held-out", "0.5", "--split-by", by)
            back = tmp_path / f"{by}-{to}-back.jsonl"
            convert(out.with_stem(f"{out.stem}-eval"), back)
            held[by, to] = read(back)
        assert held[by, "nemo-gym"] == held[by, "chat"] == held[by, "parquet"]


def test_a_system_message_comes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "system.txt").write_text("Be brief.\n")
    source = write(tmp_path / "all.jsonl", questions(range(2)))
    convert(source, tmp_path / "out.jsonl", "--to", "chat", "--system", f"@{tmp_path / 'system.txt'}")
    assert [raw["messages"][0] for raw in read(tmp_path / "out.jsonl")] == [
        {"role": "system", "content": "Be brief."}
    ] * 2
    refused = run("convert", source, tmp_path / "x.jsonl", "--system", "@nowhere")
    assert refused.exit_code == 2 and "--system @nowhere: cannot be read" in refused.stderr


@pytest.mark.parametrize("name", FILES)
def test_rows_that_others_wrote_come_back_from_parquet_as_they_were(name: str, tmp_path: Path) -> None:
    source, parquet, back = row_file(f"{name}.jsonl"), tmp_path / "rows.parquet", tmp_path / "back.jsonl"
    convert(source, parquet, "--to", "parquet")
    convert(parquet, back)
    assert read(back) == read(source)


@settings(max_examples=100, deadline=None)
@given(tables | st.lists(rows, min_size=1, max_size=4))
def test_whatever_json_says_comes_back_from_parquet(tmp_path_factory: pytest.TempPathFactory, raws: list[Any]) -> None:
    path = tmp_path_factory.mktemp("any") / "rows.parquet"
    assert write_files([path], [(0, raw) for raw in raws]) == [len(raws)]
    assert json.dumps(read(path), sort_keys=True) == json.dumps(raws, sort_keys=True)


def test_plain_messages_are_parquets_own_for_other_readers(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    convert(write(tmp_path / "all.jsonl", questions(range(3))), path, "--to", "parquet")
    first = datasets.Dataset(pyarrow.parquet.read_table(path))[0]
    assert first["messages"] == [{"role": "user", "content": "What is 0 + 1?"}] and first["answer"] == "1"


@pytest.mark.parametrize(("out", "to"), [("rows.parquet", "chat"), ("rows.jsonl", "parquet")])
def test_a_name_that_says_another_form_is_refused(out: str, to: str, tmp_path: Path) -> None:
    refused = run("convert", write(tmp_path / "all.jsonl", questions(range(3))), tmp_path / out, "--to", to)
    assert refused.exit_code == 2 and "the name of a parquet file ends in .parquet" in refused.stderr


@pytest.mark.parametrize("out", [".", "/", "pipe"])
def test_what_is_no_file_is_not_replaced(out: str, tmp_path: Path) -> None:
    rows_file, target = write(tmp_path / "a.jsonl", [{"question": "q"}]), Path(out) if out != "pipe" else tmp_path / out
    if out == "pipe":
        os.mkfifo(target)
    done = run("convert", rows_file, target, "--force")
    assert done.exit_code == 2 and str(target) in done.stderr
    assert out != "pipe" or target.is_fifo()


def test_standard_output_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("convert", write(tmp_path / "a.jsonl", [{"question": "q"}]), "-", "--force")
    assert done.exit_code == 2 and "give OUT a name" in done.stderr
    assert not (tmp_path / "-").exists()


def test_a_name_that_parquet_cannot_have_is_told(tmp_path: Path) -> None:
    done = run(
        "convert",
        write(tmp_path / "a.jsonl", [{"question": "q", "\ud800": 1}]),
        tmp_path / "a.parquet",
        "--to",
        "parquet",
    )
    assert done.exit_code == 2 and "cannot be called" in done.stderr and not (tmp_path / "a.parquet").exists()


def test_a_column_is_named_where_two_may_be_the_prompt(tmp_path: Path) -> None:
    source = write(tmp_path / "all.jsonl", [{"instruction": "a", "input": "b"}])
    refused = run("convert", source, tmp_path / "out.jsonl")
    assert refused.exit_code == 2 and "all.jsonl:1: `instruction`, `input` may each be the prompt" in refused.stderr
    convert(source, tmp_path / "out.jsonl", "--prompt-column", "instruction")
    assert read(tmp_path / "out.jsonl")[0][PARAMS_KEY] == {"input": [{"role": "user", "content": "a"}]}
