"""Requests made to cost more than their size: each is answered in time linear in it, and none is a 500."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from gymwire.servers.answers import Code
from gymwire.servers.faces.openenv.reading import WireError, read_object
from gymwire.servers.transcripts import chat_messages, disagreements
from gymwire.servers.types import CallRecord, ToolResult

from tests.faults.watching import Watched


def seconds(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def refused(text: str) -> None:
    with pytest.raises(WireError):
        read_object(text, ("data",))


CALL = {"type": "function_call", "name": "a", "call_id": "1", "arguments": "{}"}
#: Each took minutes, or for ever, at this size.
WORK: dict[str, Callable[[], Any]] = {
    "calls of one turn": lambda: chat_messages([CALL] * 200_000),
    "calls between reasoning": lambda: chat_messages([CALL, {"type": "reasoning"}] * 100_000),
    "a string without an end, deep inside": lambda: refused('{"data":' + "[" * 60_000 + '"' + '\\"' * 500_000),
    "fields without an end": lambda: refused('{"data":{' + ",".join(f'"{n}":1' for n in range(300_000)) + "}}"),
    "a transcript of other calls": lambda: disagreements(
        chat_messages({**CALL, "arguments": f'{{"n": {n}}}'} for n in range(100_000)),
        [CallRecord("a", b'{"m": %d}' % n, ToolResult("x")) for n in range(1_000)],
    ),
}


@pytest.mark.parametrize("name", WORK)
def test_reading_is_linear(name: str) -> None:
    assert seconds(WORK[name]) < 4


def test_calls_that_follow_each_other_are_one_message() -> None:
    said = {"type": "message", "role": "assistant", "content": "So."}
    output = {"type": "function_call_output", "call_id": "1", "output": "x"}
    own = {"role": "assistant", "content": "", "tool_calls": [{"id": "0"}]}
    messages = chat_messages([said, CALL, {"type": "reasoning"}, CALL, output, CALL, output, own, CALL])
    assert [len(message.get("tool_calls", ())) for message in messages] == [2, 0, 1, 0, 2]
    assert len(own["tool_calls"]) == 1, "the client's own message was written into"


BIG = 10**30


async def test_huge_numbers_in_control_calls_are_no_server_error(watched: Watched) -> None:
    typed = {"episode_id": {"rollout_id": "r"}, "task_id": {"taskset": "eval", "task_id": "9" * 5_000}, "task_data": {}}
    seeds = {
        json.dumps({"responses_create_params": {"input": "x", "max": BIG}, "first": ["a"], "later": []}): 200,
        json.dumps({"resources_session_id": "x", **typed}): 422,
    }
    metrics = {
        json.dumps({"verify_responses": [{"reward": 1e308}, {"reward": 1e308}, {"reward": -1e308}]}): 200,
        json.dumps({"verify_responses": [{"reward": 1, "_ng_task_index": BIG}]}): 200,
        json.dumps({"verify_responses": [{"reward": float("inf")}, {"reward": BIG}]}): 200,
    }
    url = f"{watched.url}/kit/gym/"
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        for path, bodies in (("seed_session", seeds), ("aggregate_metrics", metrics)):
            for body, status in bodies.items():
                async with http.post(url + path, data=body) as answer:
                    assert answer.status == status, await answer.text()
                    assert answer.headers.get("X-Gymwire-Code", "ok") != Code.INTERNAL
        body = {"responses_create_params": {"input": []}, "response": {"output": "x" * 1_000}}
        async with http.post(url + "verify", json=body) as answer:
            assert (await answer.json())["ending"] == "finished"
