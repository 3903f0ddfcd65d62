"""`gymwire eval` and an endpoint in trouble: what may pass is asked again, what stays is masked and never a 0."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from gymwire.adapters.evaluation.answer import Answer, Unreadable, Usage, answer_of, read_usage
from gymwire.adapters.evaluation.model import (
    ChatModel,
    ContextFull,
    ModelFailed,
    ModelRefused,
    Patience,
    retry_after_s,
    said_in,
)
from gymwire.adapters.evaluation.stream import Assembly, Broken
from gymwire.servers.types import FailureKind
from hypothesis import example, given, settings
from hypothesis import strategies as st
from yarl import URL

from tests.adapters.chat_endpoint import Turn, chat_endpoint
from tests.adapters.evaluating import evaluate, lines_in, play, summary

LIMITED = Turn(status=429, body={"error": {"message": "slow down"}}, headers={"Retry-After": "0"})
DROPPED, BAD = FailureKind.TRANSPORT_PEER_DROP, FailureKind.AGENT_REQUEST_FAILED
BUSY = FailureKind.PROVIDER_QUOTA_EXHAUSTED


def garbage(raw: bytes, media: str = "application/json") -> Turn:
    return Turn(raw=raw, media=media)


def events(*lines: str) -> Turn:
    return garbage("".join(f"data: {line}\n\n" for line in lines).encode(), "text/event-stream")


DONE = '{"choices": [{"delta": {}, "finish_reason": "stop"}]}'
#: What an endpoint did, and the kind that it is masked as.
TROUBLES: list[tuple[Turn, FailureKind]] = [
    (LIMITED, BUSY),
    (Turn(status=500, body="oops"), BAD),
    (Turn(status=529, body=["overloaded"]), BAD),
    (Turn("never whole", early="ends"), DROPPED),
    (Turn("never whole", early="breaks"), DROPPED),
    (Turn(calls=[("add", '{"n": 1}')], early="ends"), DROPPED),
    (Turn("half an an", finish_reason="error"), DROPPED),
    (Turn("half an an", finish_reason="abort"), DROPPED),
    *((garbage(raw), BAD) for raw in (
        b"", b"\xff\xfe\x00", b"<html>hello</html>", b"null", b"[]", b"{}", b"5", b'"text"', b"[" * 100_000,
        b'{"choices": []}', b'{"choices": 5}', b'{"choices": [5]}', b'{"choices": [{"message": "hi"}]}',
        b'{"choices": [{"message": {"content": 5}}]}', b'{"choices": [{"message": {"tool_calls": "add"}}]}',
        b'{"choices": [{"message": {"content": "half"}, "finish_reason": "error"}]}',
        b'{"choices": [{"message": {"content": ' + b"1" * 5000 + b"}}]}",
        b'{"error": "out of memory"}',
    )),
    (garbage(b'{"error": {"code": 429, "message": "later"}}'), BUSY),
    (events(), DROPPED),
    (events("[DONE]"), DROPPED),
    (events("{"), DROPPED),
    (events("5", DONE), DROPPED),
    (events('{"choices": 5}', DONE), DROPPED),
    (events('{"choices": [{"delta": {"tool_calls": 5}}]}', DONE), DROPPED),
    (events('{"choices": [{"delta": {"content": "half"}}]}', "[DONE]"), DROPPED),
    (events('{"choices": [{"message": {"content": "Done."}, "finish_reason": "stop"}]}'), DROPPED),
    (events('{"choices": [{"delta": {"content": 5}}]}', DONE), DROPPED),
    (events('{"error": {"code": "5²", "message": "?"}}'), BAD),
    (events('{"error": {"code": 429, "message": "later"}}'), BUSY),
    (events(json.dumps({"error": [[[1]]]})), BAD),
]  # fmt: skip


def test_trouble_that_stays_is_masked_and_never_a_zero(tmp_path: Path) -> None:
    """A row of counter for every trouble, and one more that is answered."""
    with chat_endpoint(lambda body, number: [*(turn for turn, _ in TROUBLES), Turn("Done.")][number]) as endpoint:
        asked = ("-n", str(len(TROUBLES) + 1), "-c", "1", "--retries", "0")
        done = evaluate("counter", endpoint.url, *asked, "--out", str(tmp_path), "--json")
    assert done.exit_code == 3, done.output
    *troubled, answered = lines_in(tmp_path)
    for (turn, kind), line in zip(TROUBLES, troubled, strict=True):
        assert line["failure"] is not None, (turn, line)
        assert (line["reward"], line["ending"], line["failure"]["kind"]) == (None, "failed", kind), (turn, line)
        assert line["failure"]["stage"] == "model" and not line["failure"]["refused"]
    found = summary(done)
    assert found["episodes"] == {"planned": 40, "played": 40, "scored": 1, "masked": 39}, "a trouble more or less"
    assert found["reward"]["mean"] == answered["reward"] and found["reward"]["episodes"] == 1


async def test_trouble_that_passes_is_repeated_until_an_answer_comes() -> None:
    turns = [*(turn for turn, _ in TROUBLES), Turn("Done.")]
    with chat_endpoint(lambda body, number: turns[number]) as endpoint:
        patience = Patience(retries=len(TROUBLES), first_pause_s=0.0)
        async with ChatModel("any", URL(endpoint.url), patience=patience) as model:
            answer = await model.turn([{"role": "user", "content": "?"}], ())
    assert (answer.content, model.repeated, model.answered) == ("Done.", len(TROUBLES), 1)


def test_a_run_repeats_by_itself() -> None:
    found, endpoint, _ = play([LIMITED, Turn("Done.")])
    assert (found["episodes"]["scored"], found["request_repeats"], len(endpoint.requests)) == (1, 1, 2)


async def test_a_whole_answer_is_one_whatever_its_connection_does_then() -> None:
    with chat_endpoint(lambda body, number: Turn("Done.", early="after")) as endpoint:
        async with ChatModel("any", URL(endpoint.url), patience=Patience(retries=0)) as model:
            assert (await model.turn([{"role": "user", "content": "?"}], ())).content == "Done."


async def test_a_stream_may_begin_with_a_byte_order_mark() -> None:
    said = b'data: {"choices": [{"delta": {"content": "all of it"}, "finish_reason": "stop"}]}\n\n'
    with chat_endpoint(lambda body, number: garbage(BOM_UTF8 + said, "text/event-stream")) as endpoint:
        async with ChatModel("any", URL(endpoint.url), patience=Patience(retries=0)) as model:
            assert (await model.turn([{"role": "user", "content": "?"}], ())).content == "all of it"


@pytest.mark.parametrize("turn", [
    Turn(status=500, raw=b"z" * 495 + b" sk-secret"), garbage(b"z" * 75 + b" sk-secret"),
    garbage(b'{"a": "' + b"z" * 188 + b' sk-secret"}'), events("z" * 75 + " sk-secret"),
    events(f'["{"z" * 72} sk-secret"]'),
    Turn(status=500, body={"error": {"code": "c" * 77 + "sk-secret"}}),
    Turn(status=302, raw=b"", headers={"Location": "/" + "z" * 495 + "sk-secret"}),
])  # fmt: skip
def test_no_part_of_a_key_is_told_where_an_error_is_cut(turn: Turn, tmp_path: Path) -> None:
    _, _, done = play([turn], "--retries", "0", "--out", str(tmp_path))
    said = done.output + "".join(file.read_text() for file in tmp_path.iterdir())
    assert "sk-" not in said and ("[key]" in said or "z" * 490 in said)


# ---- how long it waits


@pytest.mark.parametrize(
    "turn", [Turn("a word too late", slow_s=1.0), Turn("each piece in time, but the whole too late" * 2, slow_s=0.05)]
)
def test_an_answer_that_takes_too_long_is_masked(turn: Turn) -> None:
    found, _, done = play([turn], "--retries", "0", "--timeout", "0.3")
    assert (done.exit_code, found["masked_by"], found["reward"]["mean"]) == (3, {"agent_timeout at model": 1}, None)


@pytest.mark.parametrize(
    ("headers", "least_s"), [({"Retry-After": "0.4"}, 0.4), ({"retry-after-ms": "300"}, 0.3), ({"Retry-After": "?"}, 0)]
)
async def test_it_waits_as_long_as_the_endpoint_asks(headers: dict[str, str], least_s: float) -> None:
    times = []

    def say(body: Any, number: int) -> Turn:
        times.append(monotonic())
        return Turn(status=429, body={}, headers=headers) if number == 0 else Turn("Done.")

    with chat_endpoint(say) as endpoint:
        patience = Patience(retries=1, first_pause_s=0.01)
        async with ChatModel("any", URL(endpoint.url), patience=patience) as model:
            await model.turn([{"role": "user", "content": "?"}], ())
    assert least_s <= times[1] - times[0] < least_s + 5


async def test_an_endpoint_that_asks_for_an_hour_is_given_up() -> None:
    with chat_endpoint(lambda body, number: Turn(status=429, body={}, headers={"Retry-After": "3600"})) as endpoint:
        async with ChatModel("any", URL(endpoint.url)) as model:
            with pytest.raises(ModelFailed, match="after 0 repeats"):
                await model.turn([{"role": "user", "content": "?"}], ())
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7", 7), ("0.5", 0.5), ("-1", None), ("nan", None), ("1e9", None), ("", None),
     ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Thu, 01 Jan 99999 00:00:00 GMT", None),
     ("Thu, 01 Jan 2026 00:00:00 +99999999999", None), (f"Thu, 01 Jan {10**20} 00:00:00 GMT", None),
     (f"Thu, 01 Jan 2026 00:00:00 +{10**14}", None)],
)  # fmt: skip
def test_an_odd_retry_after_is_none(text: str, seconds: float | None) -> None:
    assert retry_after_s({"Retry-After": text}) == seconds


# ---- calls in pieces


def calls_of(*pieces: Any) -> list[tuple[str, str, Any]]:
    assembly = Assembly()
    for piece in pieces:
        assembly.add(json.dumps({"choices": [{"delta": {"tool_calls": [piece]}}]}))
    assembly.add(DONE)
    return [(call.id, call.name, call.arguments) for call in assembly.answer().calls]


def piece(call_id: str | None, name: str | None, arguments: str, index: int | None = 0) -> Any:
    return {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        ([piece("a", "add", '{"n": 1}'), piece("b", "read", "{}")], [("a", "add", '{"n": 1}'), ("b", "read", "{}")]),
        ([piece("a", "add", "{}"), piece("b", "add", "["), piece(None, None, "]")],
         [("a", "add", "{}"), ("b", "add", "[]")]),
        ([piece("a", "add", '{"n"'), piece("new", None, ": 1}")], [("a", "add", '{"n": 1}')]),
        ([piece("a", "add", '{"n"'), piece("a", "add", ": 1}")], [("a", "add", '{"n": 1}')]),
        ([piece("a", "ad", ""), piece("", "d", "{}")], [("a", "add", "{}")]),
        ([piece("a", "add", "{}", None), piece("b", "add", "[", None), piece(None, None, "]", None)],
         [("a", "add", "{}"), ("b", "add", "[]")]),
    ],
)  # fmt: skip
def test_pieces_find_their_call_even_where_all_have_one_index(
    pieces: list[Any], calls: list[tuple[str, str, str]]
) -> None:
    assert calls_of(*pieces) == calls


@pytest.mark.parametrize("count", [-1, True, 1.5, "5", 10**30])
def test_a_count_of_tokens_that_is_none_is_not_told(count: Any) -> None:
    assert read_usage({"prompt_tokens": count, "completion_tokens": 5}) == Usage(None, 5)


# ---- whatever an endpoint says is read, or is its trouble

KEYS = st.sampled_from(
    ["choices", "message", "delta", "content", "tool_calls", "function", "name", "arguments", "id", "index", "usage",
     "finish_reason", "error", "code", "reasoning_content", "refusal", "function_call", "prompt_tokens", "text"]
)  # fmt: skip
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.sampled_from(["stop", "length", "add", "{}", '{"n": 1}', "\ud800", "\x00", "²"])
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=8
)
MESSAGES = st.dictionaries(KEYS, VALUES, max_size=5)
CHOICES = st.lists(
    st.fixed_dictionaries({}, optional={"message": MESSAGES, "delta": MESSAGES, "finish_reason": LEAVES})
)
COMPLETIONS = st.fixed_dictionaries({"choices": CHOICES}, optional={"usage": VALUES, "error": VALUES}) | VALUES


def is_sound(answer: Answer) -> bool:
    texts = (answer.content, answer.reasoning, answer.finish_reason)
    "".join(texts).encode()  # as every wire can carry it
    return all(isinstance(call.name, str) for call in answer.calls)


@settings(max_examples=60, deadline=None)
@given(COMPLETIONS)
@example({"choices": [{"message": {"content": "\ud800"}, "finish_reason": "\ud800"}]})
def test_a_whole_answer_is_read_or_is_trouble(value: Any) -> None:
    try:
        answer = answer_of(json.dumps(value).encode())
    except Unreadable:
        return
    assert is_sound(answer)


@settings(max_examples=60, deadline=None)
@given(st.lists(COMPLETIONS, max_size=4))
@example([{"choices": [{"delta": {"content": "\ud800"}, "finish_reason": "\ud800"}]}])
def test_a_stream_is_read_or_is_trouble(values: list[Any]) -> None:
    assembly = Assembly()
    try:
        for value in values:
            assembly.add(json.dumps(value))
        answer = assembly.answer()
    except Broken:
        return
    assert is_sound(answer)


@pytest.mark.parametrize(
    "body",
    [b"[" * 900 + b"]" * 900, b'{"error": ' + b"[" * 900 + b"]" * 900 + b"}", b'{"error": {"message": {}}}', b""],
)
async def test_an_odd_error_is_still_told(body: bytes) -> None:
    assert said_in(body)[1]
    for status in (200, 400, 500):
        with chat_endpoint(lambda asked, number, status=status: Turn(raw=body, status=status)) as endpoint:
            async with ChatModel("any", URL(endpoint.url), patience=Patience(retries=0)) as model:
                with pytest.raises((ModelFailed, ModelRefused, ContextFull)):
                    await model.turn([{"role": "user", "content": "?"}], ())


async def test_a_context_that_is_full_is_read_from_an_error_that_comes_in_pieces() -> None:
    """The sentence that says so may stand far behind the beginning."""
    body = json.dumps({"error": {"trace": "x" * 200_000, "code": "context_length_exceeded", "message": "full"}})
    with chat_endpoint(lambda asked, number: Turn(raw=body.encode(), status=400)) as endpoint:
        async with ChatModel("any", URL(endpoint.url)) as model:
            with pytest.raises(ContextFull):
                await model.turn([{"role": "user", "content": "?"}], ())
