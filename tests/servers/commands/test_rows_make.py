"""`gymwire rows make`: an environment's own rows as a file, byte for byte the same for equal arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result
from gymwire.servers.cli import build
from gymwire.servers.rows import read_rows
from typer.testing import CliRunner

DATASETS = Path(__file__).parents[3] / "datasets"


def rows_make(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(build("rows"), ["rows", "make", *arguments])


@pytest.mark.parametrize("environment", ["counter", "battery", "ledger", "checkout", "codebook"])
@pytest.mark.parametrize("split", ["train", "eval"])
def test_the_bundled_datasets_are_what_the_command_makes(environment: str, split: str, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    assert rows_make(environment, "--split", split, "--out", str(out)).exit_code == 0
    assert out.read_bytes() == (DATASETS / environment / f"{split}.jsonl").read_bytes()


def test_standard_output_gets_the_same_bytes_as_a_file(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    arguments = ("ledger", "--split", "train", "--count", "20", "--seed", "7", "--out")
    rows_make(*arguments, str(out))
    assert rows_make(*arguments, "-").stdout_bytes == out.read_bytes()


def test_count_and_seed_are_obeyed(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    rows_make("counter", "--split", "train", "--count", "9", "--seed", "1", "--out", str(first))
    rows_make("counter", "--split", "train", "--count", "9", "--seed", "2", "--out", str(second))
    assert len(read_rows(first)) == len(read_rows(second)) == 9
    assert first.read_bytes() != second.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("counter", "--split", "test"), "no split 'test'; there are: train, eval"),
        (("contur", "--split", "train"), "Did you mean 'counter'?"),
        (("counter", "--split", "train", "--count", "0"), "--count"),
    ],
)
def test_a_wrong_call_is_told_and_writes_nothing(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    done = rows_make(*arguments, "--out", str(out))
    assert done.exit_code == 2 and said in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = rows_make("counter", "--split", "eval", "--out", str(tmp_path / "none" / "rows.jsonl"))
    assert done.exit_code == 2 and "cannot be written" in done.stderr


def test_an_old_file_survives_a_call_that_fails(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    out.write_text("old")
    rows_make("counter", "--split", "nope", "--out", str(out))
    assert out.read_text() == "old"
