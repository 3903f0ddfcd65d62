"""Every kind of file gives the same records."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from gymwire.servers.row_files import Problems, records
from gymwire.servers.types import RowError

import datasets

ROWS: list[dict[str, Any]] = [{"question": "2+2?\u2028", "answer": "4"}, {"question": "ü", "answer": ""}]
JSONL = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}


def save(path: Path) -> None:
    kind = path.name
    if kind.endswith(".parquet"):
        pyarrow.parquet.write_table(pyarrow.table(COLUMNS), path)
    elif kind == "saved":
        datasets.Dataset.from_dict(COLUMNS).save_to_disk(path)
    elif kind.endswith(".zst"):
        path.write_bytes(zstandard.compress(JSONL))
    elif kind.endswith(".gz"):
        path.write_bytes(gzip.compress(JSONL))
    elif kind.endswith(".csv"):
        path.write_text("question,answer\n2+2?\u2028,4\nü,\n", "utf-8")
    elif kind.endswith(".json"):
        content = {"columns.json": COLUMNS, "inner.json": {"rows": ROWS}}.get(kind, ROWS)
        path.write_text(json.dumps(content), "utf-8")
    else:
        path.write_bytes(JSONL)


KINDS = ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.json", "columns.json", "inner.json", "a.csv", "a.parquet", "saved"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_gives_the_same_records(kind: str, tmp_path: Path) -> None:
    save(tmp_path / kind)
    problems = Problems()
    assert [raw for _, raw in records(tmp_path / kind, problems)] == ROWS and not problems.count


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("a.parquet", b"no"), ("a.gz", b"no"), ("a.zst", b"no"), ("a.json", b"{")),
        *(("a.json", b'{"a": [1], "b": []}'), ("a.csv", b"a,b, a\n1,2,3\n")),
    ],
)
def test_a_file_that_is_something_else_is_told(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RowError, match=name):
        list(records(tmp_path / name, Problems()))


def test_spaces_around_a_tables_column_names_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("prompt, answer\nq, 1\n")
    assert [raw for _, raw in records(tmp_path / "a.csv", Problems())] == [{"prompt": "q", "answer": " 1"}]


FRAME = zstandard.compress(JSONL * 2000)
CELLS = pyarrow.array(["q", "r"])


def table(**columns: Any) -> pyarrow.Table:
    return pyarrow.table({"prompt": CELLS, **columns})


def marked(columns: str) -> pyarrow.Table:
    return table(x=[1, 2]).replace_schema_metadata({"gymwire.json_columns": columns})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl.gz", b"\x1f\x8b\x08\x00" + bytes(range(6)) + b"\xff" * 60),  # zlib's own error
        ("a.jsonl.zst", FRAME[:-9]),  # a stream reader takes what is there for all there is
        ("a.jsonl.zst", FRAME + FRAME[:-1]),
        ("a.parquet", pyarrow.table([CELLS, CELLS], names=["prompt", "prompt"])),
        *(("a.parquet", marked(columns)) for columns in ("{", "5", '[["prompt"]]')),
    ],
)
def test_a_broken_file_is_refused_as_a_whole(name: str, content: bytes | pyarrow.Table, tmp_path: Path) -> None:
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    else:
        pyarrow.parquet.write_table(content, tmp_path / name)
    with pytest.raises(RowError, match=name):
        list(records(tmp_path / name, Problems()))


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (pyarrow.array([b"ok", b"\xff"]).view(pyarrow.string()), "UnicodeDecodeError"),
        (pyarrow.array([0, 2**30], pyarrow.date32()), "OverflowError"),
        (pyarrow.array([b"a", None]), "b'a'"),
        (pyarrow.array([1.0, float("nan")]), "nan"),
    ],
)
def test_a_cell_without_a_value_costs_its_row_alone(second: pyarrow.Array, said: str, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(table(x=second), tmp_path / "a.parquet")
    problems = Problems()
    assert len(list(records(tmp_path / "a.parquet", problems))) == 1
    assert problems.count == 1 and said in problems.text() and "a.parquet:row " in problems.text()


def test_json_text_that_is_none_costs_its_rows(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(marked('["x"]'), tmp_path / "a.parquet")
    problems = Problems()
    assert not list(records(tmp_path / "a.parquet", problems)) and problems.count == 2


@pytest.mark.parametrize("line", ['{"q": "a", "q": "b"}', '{"q": "a", "data": [{"x": 1, "x": 1}]}'])
def test_a_key_that_comes_twice_is_no_value(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"q": "first"}}\n{line}\n')
    problems = Problems()
    assert len(list(records(tmp_path / "a.jsonl", problems))) == 1
    assert "a.jsonl:2: an object has the key" in problems.text()


def test_a_cell_may_be_long_and_one_that_is_no_text_costs_its_row(tmp_path: Path) -> None:
    long = "x" * 300_000
    (tmp_path / "a.csv").write_bytes(f"prompt,answer\n{long},\u00fc\n".encode() + b"q,\xff\n'q\x00',2\n")
    problems = Problems()
    found = [raw for _, raw in records(tmp_path / "a.csv", problems)]
    assert [raw["prompt"] for raw in found] == [long, "'q\x00'"] and found[0]["answer"] == "\u00fc"
    assert problems.text() == f"{tmp_path / 'a.csv'}:3: not UTF-8"


def test_a_quote_that_is_not_closed_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('prompt,answer\nq,1\n"q,2\n')
    with pytest.raises(RowError, match=r"a\.csv:3: cannot be read"):
        list(records(tmp_path / "a.csv", Problems()))
