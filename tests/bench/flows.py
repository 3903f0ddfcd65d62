"""What a client of each wire sends: tool calls in one session, whole episodes, and calls with thinking between.

The same flow drives a gymwire server and its peer wherever the wire lets it.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import count
from time import perf_counter

import orjson

from .load import Answer, Flow, MakeFlow, Meter, ended_by_server
from .processes import BenchError
from .texts import PLACE, ROW, chat_messages, responses_output
from .wires import post

_serial = count(1)  # session ids are never used twice
Step = Generator[bytes, Answer, Answer]
PROTOCOL = "2026-07-28"
_MCP_META = {
    "io.modelcontextprotocol/protocolVersion": PROTOCOL,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def checked(answer: Answer, wanted: bytes = b"") -> Answer:
    """A load of errors is no measurement."""
    if answer.status not in (0, 200) or wanted not in answer.body:
        raise BenchError(f"{answer.status} {answer.body[:300]!r}")
    return answer


def one_call(meter: Meter, request: bytes, wanted: bytes) -> Step:
    """Send one call that counts as an operation."""
    started = perf_counter() if meter.timing else 0.0
    answer = checked((yield request), wanted)
    meter.done()
    if started:
        meter.latencies_s.append(perf_counter() - started)
    return answer


# ---- echoes


def http_echo(meter: Meter, index: int) -> Flow:
    """The very request of a NeMo Gym call, echoed."""
    body = b'{"n":1}'
    cookie = "cookie: gymwire_session=" + "x" * 22 + "." + "0" * 32
    meter.ready += 1
    for number in count(1):
        yield from one_call(meter, post("/", body, cookie, f"idempotency-key: {number}"), body)


def socket_echo(meter: Meter, index: int) -> Flow:
    meter.ready += 1
    for number in count(1):
        yield from one_call(meter, _step(number), b"call_tool")


# ---- NeMo Gym


def gym_calls(prefix: str, think_s: float = 0.0) -> MakeFlow:
    def flow(meter: Meter, index: int) -> Flow:
        answer = checked((yield post(f"{prefix}/seed_session", orjson.dumps(ROW))))
        cookie = cookies_of(answer)
        meter.ready += 1
        if think_s:
            yield think_s * (index % 997) / 997
        for number in count(1):
            body = b'{"n":1}' if number % 2 else b'{"n":-1}'
            request = post(f"{prefix}/add", body, cookie, f"idempotency-key: {number}")
            yield from one_call(meter, request, b"added")
            if think_s:
                yield think_s

    return flow


def gym_episodes(prefix: str, output: bytes) -> MakeFlow:
    """Typed seed, two calls, verify with the transcript, close."""

    def flow(meter: Meter, index: int) -> Flow:
        for _ in count(1):
            yield from _gym_episode(prefix, f"bench-{next(_serial)}", output)
            meter.ready += 1
            meter.done()

    return flow


def _gym_episode(prefix: str, name: str, output: bytes) -> Flow:
    episode = {"rollout_id": name, "attempt": 0}
    seed = {
        "resources_session_id": name,
        "episode_id": episode,
        "task_id": {"taskset": "counter", "task_id": name},
        "task_data": {"start": 0, "target": 2},
    }
    cookie = cookies_of(checked((yield post(f"{prefix}/seed_session", orjson.dumps(seed)))))
    for number in (b"1", b"2"):
        key = f"idempotency-key: {number.decode()}"
        checked((yield post(f"{prefix}/add", b'{"n":1}', cookie, key)), b"added")
    body = b'{"start":0,"target":2,"responses_create_params":{"input":"Add two."},"response":' + output + b"}"
    checked((yield post(f"{prefix}/verify", body, cookie)), b'"reward":1.0')
    close = orjson.dumps({"resources_session_id": name, "episode_id": episode})
    checked((yield post(f"{prefix}/close_session", close, cookie)))


def gym_verifies(prefix: str, output: bytes) -> MakeFlow:
    """Seed and verify alone: the difference between two transcripts is what their size costs."""
    body = b'{"start":0,"target":2,"responses_create_params":{"input":"Add two."},"response":' + output + b"}"

    def flow(meter: Meter, index: int) -> Flow:
        for _ in count(1):
            cookie = cookies_of(checked((yield post(f"{prefix}/seed_session", orjson.dumps(ROW)))))
            yield from one_call(meter, post(f"{prefix}/verify", body, cookie), b'"reward":')
            meter.ready += 1

    return flow


def gym_seeds(prefix: str) -> MakeFlow:
    """The first answer of a server, and nothing more."""

    def flow(meter: Meter, index: int) -> Flow:
        meter.ready += 1
        yield from one_call(meter, post(f"{prefix}/seed_session", orjson.dumps(ROW)), b"")

    return flow


def cookies_of(answer: Answer) -> str:
    """The cookies an answer sets, as the header that sends them back."""
    lines = answer.head.decode("latin-1").split("\r\n")
    pairs = [line[12:].split(";", 1)[0] for line in lines if line.lower().startswith("set-cookie: ")]
    if not pairs:
        raise BenchError("a seed set no cookie")
    return "cookie: " + "; ".join(pairs)


# ---- OpenEnv


def openenv_calls(think_s: float = 0.0, *, plain: bool = False) -> MakeFlow:
    def flow(meter: Meter, index: int) -> Flow:
        checked((yield _reset()), b"observation")
        meter.ready += 1
        if think_s:
            yield think_s * (index % 997) / 997
        for number in count(1):
            yield from one_call(meter, _plain_step(number) if plain else _step(number), b"added")
            if think_s:
                yield think_s

    return flow


def openenv_episodes(*, grade: str = "verify", plain: bool = False) -> MakeFlow:
    """A socket an episode: reset, two steps, the transcript to the grader, close."""
    messages = chat_messages()
    if plain:
        grading: dict[str, object] = {"messages": messages}
    else:
        control = {"metadata": {"control": True}} if grade == "verify" else {}
        grading = {"type": "call_tool", "tool_name": grade, "arguments": {"messages": messages}, **control}
    last = orjson.dumps({"type": "step", "data": grading})

    def flow(meter: Meter, index: int) -> Flow:
        checked((yield _reset()), b"observation")
        for number in (1, 1):
            checked((yield _plain_step(number) if plain else _step(number)), b"added")
        checked((yield last), b'"observation"')
        meter.ready += 1
        meter.done()
        yield from ended_by_server(b'{"type":"close"}')

    return flow


def _reset() -> bytes:
    return orjson.dumps({"type": "reset", "data": PLACE})


def _step(number: int) -> bytes:
    data = {
        "type": "call_tool",
        "tool_name": "add",
        "arguments": {"n": 1 if number % 2 else -1},
        "metadata": {"idempotency_key": str(number)},
    }
    return orjson.dumps({"type": "step", "data": data})


def _plain_step(number: int) -> bytes:
    data = {"n": 1 if number % 2 else -1, "metadata": {"idempotency_key": str(number)}}
    return orjson.dumps({"type": "step", "data": data})


# ---- MCP


def mcp_calls(path: str, *, sdk: bool = False) -> MakeFlow:
    """Stateless `tools/call`: our session travels as a header, the SDK's tool takes it as an argument."""

    def flow(meter: Meter, index: int) -> Flow:
        handle = _handle_of(checked((yield mcp_call(path, "seed_session", PLACE))))
        meter.ready += 1
        headers = () if sdk else (f"x-gymwire-session: {handle}",)
        for number in count(1):
            arguments: dict[str, object] = {"n": 1 if number % 2 else -1}
            if sdk:
                arguments["session"] = handle
            key = {"gymwire/idempotency-key": str(number)}
            yield from one_call(meter, mcp_call(path, "add", arguments, *headers, meta=key), b'"added"')

    return flow


def mcp_episodes(path: str, *, sdk: bool = False) -> MakeFlow:
    messages = chat_messages()

    def flow(meter: Meter, index: int) -> Flow:
        for _ in count(1):
            handle = _handle_of(checked((yield mcp_call(path, "seed_session", PLACE))))
            headers = () if sdk else (f"x-gymwire-session: {handle}",)
            of_session = {"session": handle}
            for number in (1, 2):
                key = {"gymwire/idempotency-key": str(number)}
                arguments = {"n": 1, **(of_session if sdk else {})}
                checked((yield mcp_call(path, "add", arguments, *headers, meta=key)), b'"added"')
            checked((yield mcp_call(path, "verify", of_session | {"messages": messages})), b'\\"reward\\"')
            checked((yield mcp_call(path, "close_session", of_session)), b'"isError":false')
            meter.ready += 1
            meter.done()

    return flow


def mcp_call(path: str, name: str, arguments: object, *headers: str, meta: dict[str, str] | None = None) -> bytes:
    params = {"name": name, "arguments": arguments, "_meta": _MCP_META | (meta or {})}
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return post(
        path,
        body,
        "accept: application/json, text/event-stream",
        f"mcp-protocol-version: {PROTOCOL}",
        "mcp-method: tools/call",
        f"mcp-name: {name}",
        *headers,
    )


def _handle_of(answer: Answer) -> str:
    result = orjson.loads(answer.body)["result"]
    return orjson.loads(result["content"][0]["text"])["session"]


SHORT_OUTPUT = responses_output(text_bytes=14_000)
