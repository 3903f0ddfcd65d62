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
