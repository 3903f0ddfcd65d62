from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from gymwire.servers import Environment, Row, Tool
from gymwire.servers import rows as rows_module
from gymwire.servers.rows import RowSource, draw_rows, generated_rows, read_rows, row_line, stable_index, write_rows
from gymwire.servers.types import RowError

ASK = Tool("ask", "Ask.", {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}})


class Numbers(Environment):
    splits = ("train", "eval")

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        for number in range(10 if count is None else count):
            yield Row.of(f"{split} {number}", number=number + seed)


class Bare(Environment):
    """No splits and no rows of its own."""


def file_of(tmp_path: Path, content: bytes, name: str = "rows.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def a_line(**data: Any) -> bytes:
    return json.dumps({"responses_create_params": {"input": "hello"}, **data}).encode()


# Reading


def test_a_file_is_read_line_by_line_with_nothing_lost(tmp_path: Path) -> None:
    data = {
        "big": 2**70,
        "small": 1e-300,
        "exact": 0.1,
        "none": None,
        "nested": {"z": [1, {"y": "\u2028 ü"}], "a": ""},
        "lone": "\ud800",
    }
    framework = {"agent_ref": {"type": "responses_api_agents", "name": "a"}, "_ng_task_index": 3}
    params = {"input": [{"role": "user", "content": "hi", "extra": 1}], "temperature": 0.5, "tools": []}
    whole = {"responses_create_params": params, **data, **framework}
    (row,) = read_rows(file_of(tmp_path, json.dumps(whole).encode()))
    assert (row.data, row.framework, row.params, row.tools) == (data, framework, {"temperature": 0.5}, ())
    assert row.to_json() == whole
    assert json.loads(row_line(row, [ASK])) == whole


def test_blank_lines_a_byte_order_mark_and_windows_line_ends_are_no_rows(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + a_line(n=1) + b"\r\n\r\n   \n" + a_line(n=2)
    assert [row.data["n"] for row in read_rows(file_of(tmp_path, content))] == [1, 2]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    content = json.dumps({"responses_create_params": {"input": "a\u2028b\u0085c"}}, ensure_ascii=False).encode()
    (row,) = read_rows(file_of(tmp_path, content))
    assert row.prompt == [{"role": "user", "content": "a\u2028b\u0085c"}]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "not JSON at column"),
        (b"[]", "a row is a JSON object, got list"),
        (b"null", "a row is a JSON object"),
        (b'{"input": "x"}', "responses_create_params"),
        (b'{"responses_create_params": {"input": 5}}', "`responses_create_params.input` is a string or a list"),
        (b'{"responses_create_params": {"tools": {}}}', "`responses_create_params.tools` is a list"),
        (b'{"responses_create_params": {"tools": [{}]}}', "a tool needs a string `name`"),
        (a_line(n=float("nan")), "NaN is no JSON value"),
        (a_line(n=float("-inf")), "-Infinity is no JSON value"),
        (a_line().replace(b'"hello"', b'"hello","t":1e999'), "the number 1e999 is too large"),
        (a_line().replace(b"hello", b"\xff"), "not UTF-8 at byte"),
        (b"[" * 100_000, "cannot be read"),
        (b"1" * 10_000, "cannot be read"),
        (a_line() + a_line(), "one row a line"),
    ],
)
def test_what_is_no_row_is_refused_with_file_and_line(tmp_path: Path, line: bytes, says: str) -> None:
    path = file_of(tmp_path, a_line() + b"\n\n" + line + b"\n" + a_line())
    with pytest.raises(RowError) as caught:
        read_rows(path)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert says in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RowError, match=r"gone\.jsonl: cannot be read: No such file"):
        read_rows(tmp_path / "gone.jsonl")
    with pytest.raises(RowError, match="cannot be read"):
        read_rows(tmp_path)


# Writing


def test_a_line_is_compact_utf8_with_keys_in_a_fixed_order() -> None:
    row = Row(
        prompt=[{"role": "user", "content": "Grüße"}],
        data={"z": 1, "a": 2},
        params={"temperature": 1},
        framework={"_ng_task_index": 0},
    )
    assert row_line(row, [ASK]).decode() == (
        '{"responses_create_params":{"input":[{"role":"user","content":"Grüße"}],"tools":[{"type":"function",'
        '"name":"ask","description":"Ask.","parameters":{"type":"object","properties":{"b":{"type":"string"},'
        '"a":{"type":"integer"}}},"strict":false}],"temperature":1},"z":1,"a":2,"_ng_task_index":0}\n'
    )


def test_a_row_keeps_the_tools_it_names() -> None:
    assert b'"tools":[]' in row_line(Row(tools=()), [ASK])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}, b"bytes"])
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(RowError, match="cannot be written as JSON"):
        row_line(Row.of("x", value=value), ())


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def lines() -> Iterator[bytes]:
        yield row_line(Row.of("first"), ())
        raise KeyError("generator broke")

    path = file_of(tmp_path, b"before")
    with pytest.raises(KeyError):
        write_rows(path, lines())
    assert path.read_bytes() == b"before"
    assert write_rows(path, [row_line(Row.of("only"), ())]) == 1
    assert [row.prompt[0]["content"] for row in read_rows(path)] == ["only"]
    assert [item.name for item in tmp_path.iterdir()] == ["rows.jsonl"]
    with pytest.raises(RowError, match="cannot be written"):
        write_rows(tmp_path / "no" / "such" / "folder.jsonl", [])


# Generating


def test_a_count_is_kept_even_by_a_generator_that_ignores_it() -> None:
    class Endless(Environment):
        @classmethod
        def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
            while True:
                yield Row()

    assert len(list(generated_rows(Endless, "train", 3))) == 3


def test_a_standard_size_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MAX_GENERATED_ROWS", 9)
    with pytest.raises(RowError, match=r"numbers: `rows` yields more than 9 rows for split 'train' .* standard size"):
        RowSource(Numbers).count("train")
    monkeypatch.setattr(rows_module, "MAX_GENERATED_ROWS", 10)
    assert RowSource(Numbers).count("train") == 10


@pytest.mark.parametrize("error", [ValueError("no data"), SystemExit("no data")])
def test_rows_that_raise_end_with_a_sentence(error: BaseException) -> None:
    """A server whose rows called `sys.exit` ended with status 0 and said nothing."""

    class Broken(Environment):
        @classmethod
        def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
            raise error

    with pytest.raises(RowError, match=r"broken: `rows` failed for split 'train': \w+: no data"):
        list(generated_rows(Broken, "train"))


def test_unknown_splits_and_negative_counts_are_refused() -> None:
    with pytest.raises(RowError, match="no split 'test'; there are: train, eval"):
        list(generated_rows(Numbers, "test"))
    with pytest.raises(RowError, match="cannot be negative"):
        list(generated_rows(Numbers, "train", -1))


def test_drawing_more_rows_than_there_are_ends_with_a_sentence() -> None:
    def draw(rng: Any, index: int) -> Row:
        return Row.of("x", n=rng.randrange(50))

    sizes = {"train": 5, "eval": 2}
    train, held_out = (list(draw_rows(draw, sizes, split, None, 0)) for split in sizes)
    assert (len(train), len(held_out)) == (5, 2)
    with pytest.raises(RowError, match=r"no more than \d+ different rows"):
        list(draw_rows(draw, sizes, "train", 51, 0))
    with pytest.raises(RowError, match="no split 'nope'"):
        next(draw_rows(draw, sizes, "nope", None, 0))


# Choosing


def test_rows_by_split_and_index() -> None:
    source = RowSource(Numbers)
    assert source.splits == ("train", "eval")
    assert source.get("eval", 9).prompt[0]["content"] == "eval 9"
    assert source.get("train", 0) is source.get("train", 0)


@pytest.mark.parametrize("index", [-1, 10, 2**64, 1 << 50_000], ids=["-1", "10", "2^64", "2^50000"])
def test_an_index_out_of_range_names_the_range(index: int) -> None:
    with pytest.raises(RowError, match="split 'train': it has rows 0 to 9"):
        RowSource(Numbers).get("train", index)


@pytest.mark.parametrize("split", ["", "Train", "test", "x" * 10_000])
def test_an_unknown_split_names_those_there_are(split: str) -> None:
    for look in (lambda s: s.get(split, 0), lambda s: s.count(split), lambda s: s.choose(1, split)):
        with pytest.raises(RowError, match="there are: train, eval") as caught:
            look(RowSource(Numbers))
        assert len(str(caught.value)) < 120


def test_equal_seeds_choose_equal_rows_from_the_first_split() -> None:
    for seed in (0, 1, -1, 2**63, -(1 << 50_000)):
        row = RowSource(Numbers).choose(seed)
        assert row == RowSource(Numbers).choose(seed)
        assert row.prompt[0]["content"].startswith("train ")
    assert len({RowSource(Numbers).choose(seed).data["number"] for seed in range(100)}) == 10
    assert RowSource(Numbers).choose(3, "eval").prompt[0]["content"].startswith("eval ")


def test_without_a_seed_rows_are_drawn_anew() -> None:
    source = RowSource(Numbers)
    assert len({source.choose(None).data["number"] for _ in range(400)}) == 10


def test_a_seeds_index_is_the_same_in_every_process() -> None:
    code = "from gymwire.servers.rows import stable_index; print([stable_index(n, 1000) for n in range(-2, 5)])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == [stable_index(n, 1000) for n in range(-2, 5)] == [632, 380, 40, 913, 446, 843, 454]


def test_a_split_is_loaded_once_by_many_threads_and_only_when_asked_for() -> None:
    loads: list[str] = []

    class Counted(Numbers):
        @classmethod
        def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
            loads.append(split)
            yield from super().rows(split, count, seed)

    source = RowSource(Counted)
    assert loads == []
    with ThreadPoolExecutor(16) as pool:
        rows = list(pool.map(lambda seed: source.choose(seed % 5), range(200)))
    assert loads == ["train"]
    assert len({id(row) for row in rows}) <= 5


def test_an_environment_without_rows_has_one_empty_row() -> None:
    source = RowSource(Bare)
    assert (source.splits, source.count("train")) == (("train",), 1)
    assert source.choose(None) == source.choose(5) == Row()


def test_a_rows_file_takes_the_place_of_the_environments_rows(tmp_path: Path) -> None:
    source = RowSource(Numbers, file_of(tmp_path, a_line(n=1) + b"\n" + a_line(n=2) + b"\n"))
    assert (source.splits, source.count("train")) == (("train",), 2)
    assert source.get("train", 1).data == {"n": 2}
    with pytest.raises(RowError, match="no split 'eval'; there are: train"):
        source.get("eval", 0)


@pytest.mark.parametrize(("name", "split"), [("eval.jsonl", "eval"), ("test.jsonl", "test"), ("my.jsonl", "train")])
def test_a_rows_file_named_after_a_split_is_that_split(tmp_path: Path, name: str, split: str) -> None:
    assert RowSource(Numbers, file_of(tmp_path, a_line(), name)).splits == (split,)


def test_a_rows_file_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RowError, match=r"rows\.jsonl has no rows"):
        RowSource(Numbers, file_of(tmp_path, b"\n\n")).choose(0)


@pytest.mark.parametrize("name", ["workplace_assistant", "mcqa", "code_gen", "example_multi_step"])
def test_rows_that_others_wrote_keep_their_task_data(name: str) -> None:
    path = Path(__file__).parents[3] / "shared" / "rows" / f"{name}.jsonl"
    if not path.exists():
        tell = pytest.fail if os.environ.get("REQUIRE_ROWS") == "1" else pytest.skip
        tell("the collection of rows that others wrote is not here")
    for row, line in zip(read_rows(path), path.read_bytes().splitlines(), strict=True):
        raw = json.loads(line)
        params = raw.pop("responses_create_params")
        assert {**row.data, **row.framework} == raw
        assert list(row.prompt) == params["input"]
        assert [tool.name for tool in row.tools or ()] == [tool["name"] for tool in params.get("tools", [])]
