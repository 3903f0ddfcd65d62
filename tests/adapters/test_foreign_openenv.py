"""OpenEnv servers of others: one tool that takes an Action, rewards that become one, sockets that are not reopened."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer
from gymwire.adapters import OpenEnvOptions, SessionFailed, WrongRequest, connect
from gymwire.servers import Ending, Row

ACTION = {
    "type": "object",
    "title": "MoveAction",
    "description": "Move on the line.",
    "additionalProperties": False,
    "properties": {
        "metadata": {"type": "object", "title": "Metadata"},
        "by": {"type": "integer", "title": "By"},
        "to": {"$ref": "#/$defs/Place"},
    },
    "required": ["by"],
    "$defs": {"Place": {"type": "object", "properties": {"title": {"type": "string"}}}},
}


class Line:
    """A step environment: walk to 3; every step's reward is its length. The socket drops at 13."""

    def __init__(self) -> None:
        self.resets: list[dict[str, Any]] = []
        self.sockets = 0
        self.full = 0
        self.rewards: Any = lambda by: float(by)
        self.done: Any = lambda at: at >= 3

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/schema", self.schema)
        app.router.add_get("/ws", self.ws)
        return app

    async def schema(self, request: web.Request) -> web.Response:
        return web.json_response({"action": ACTION, "observation": {}, "state": {}})

    async def ws(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets += 1
        if self.full:
            self.full -= 1
            await socket.send_json({"type": "error", "data": {"message": "at capacity", "code": "CAPACITY_REACHED"}})
            await socket.close()
            return socket
        at = 0
        async for frame in socket:
            if frame.type is not WSMsgType.TEXT:
                break
            message = frame.json()
            data = message.get("data") or {}
            if message["type"] == "close":
                break
            if message["type"] == "reset":
                self.resets.append(data)
                await socket.send_json(self.observed(0, 0.0))
                continue
            by = data.get("by")
            if by == 13:
                assert request.transport is not None
                request.transport.abort()
                break
            if by == 42:
                error = {
                    "message": f"no such place{request.headers.get('Authorization', '')}",
                    "code": "EXECUTION_ERROR",
                }
                await socket.send_json({"type": "error", "data": error})
            elif not isinstance(by, int):
                errors = [{"loc": ["data", "by"], "msg": "Input should be a valid integer"}]
                error = {"message": "Invalid message", "code": "VALIDATION_ERROR", "errors": errors}
                await socket.send_json({"type": "error", "data": error})
            else:
                at += by
                await socket.send_json(self.observed(at, self.rewards(by)))
        return socket

    def observed(self, at: int, reward: Any) -> dict[str, Any]:
        observation = {"at": at, "metadata": {"secret": 1}}
        return {"type": "observation", "data": {"observation": observation, "reward": reward, "done": self.done(at)}}


@pytest.fixture
async def line() -> AsyncIterator[tuple[Line, str]]:
    stranger = Line()
    async with TestServer(stranger.app()) as server:
        yield stranger, str(server.make_url("/"))


async def test_an_action_becomes_a_tool(line: tuple[Line, str]) -> None:
    options = OpenEnvOptions(tool="move", reset_fields=("level",))
    row = Row.of("Walk to 3.", level=2, secret=3)
    async with connect(line[1], wire="openenv", openenv=options) as env, env.session(row=row, seed=5) as session:
        (tool,) = session.tools
        assert (tool.name, tool.description) == ("move", "Move on the line.")
        assert tool.parameters == {
            "type": "object",
            "additionalProperties": False,
            "properties": {"by": {"type": "integer"}, "to": {"$ref": "#/$defs/Place"}},
            "required": ["by"],
            "$defs": {"Place": {"type": "object", "properties": {"title": {"type": "string"}}}},
        }
        assert [message["content"] for message in session.prompt] == ["Walk to 3.", '{"at": 0}']
        (reset,) = line[0].resets
        assert reset.pop("episode_id") and reset == {"level": 2, "seed": 5}
        result = await session.call("move", {"by": 1})
        assert (result.text, result.done) == ('{"at": 1}', False)
        assert (await session.call("move", {"by": 2})).done and session.done
        late = await session.call("move", {"by": 1})
        assert late.is_error and "ended" in late.text
        assert (await session.verify()).reward == 2.0


@pytest.mark.parametrize(("combined", "reward"), [("last", -1.0), ("sum", 0.0), ("max", 1.0)])
async def test_rewards_are_combined(line: tuple[Line, str], combined: Any, reward: float) -> None:
    options = OpenEnvOptions(reward=combined)
    async with connect(line[1], wire="openenv", openenv=options) as env, env.session() as session:
        for by in (1, 0, -1):
            await session.call("step", {"by": by})
        outcome = await session.verify(ending=Ending.CUT)
        assert (outcome.reward, outcome.ending) == (reward, Ending.CUT)


@pytest.mark.parametrize(("steps", "kind"), [(0, None), (1, "verifier_error")])
async def test_a_reward_that_never_came(line: tuple[Line, str], steps: int, kind: str | None) -> None:
    line[0].rewards = lambda by: None
    async with connect(line[1], wire="openenv") as env, env.session() as session:
        for _ in range(steps):
            await session.call("step", {"by": 1})
        if kind is None:
            assert (await session.verify()).reward == 0.0
        else:
            with pytest.raises(SessionFailed, match=kind):
                await session.verify()


async def test_rewards_whose_sum_no_number_holds_fail(line: tuple[Line, str]) -> None:
    line[0].rewards = lambda by: 1e308
    options = OpenEnvOptions(reward="sum")
    async with connect(line[1], wire="openenv", openenv=options) as env, env.session() as session:
        for _ in range(2):
            await session.call("step", {"by": 1})
        with pytest.raises(SessionFailed, match="verifier_error at verify"):
            await session.verify()


@pytest.mark.parametrize("reward", ["0.5", [1], True, {"a": 1.0}])
async def test_a_reward_that_is_no_number_fails(line: tuple[Line, str], reward: Any) -> None:
    line[0].rewards = lambda by: reward
    async with connect(line[1], wire="openenv") as env, env.session() as session:
        with pytest.raises(SessionFailed, match="verifier_error at call"):
            await session.call("step", {"by": 1})


async def test_an_action_that_does_not_fit_is_the_policys_mistake(line: tuple[Line, str]) -> None:
    async with connect(line[1], wire="openenv") as env, env.session() as session:
        result = await session.call("step", {"by": "far"})
        assert result.is_error and "by: Input should be a valid integer" in result.text
        assert (await session.call("step", {"by": 1})).text == '{"at": 1}'


async def test_an_action_that_does_not_fit_is_no_step(line: tuple[Line, str]) -> None:
    """A policy could have its episode masked by one such action."""
    async with connect(line[1], wire="openenv") as env, env.session() as session:
        assert (await session.call("step", {"by": "far"})).is_error
        assert (await session.verify()).reward == 0.0


@pytest.mark.parametrize("done", ["true", 1])
async def test_an_end_that_is_neither_true_nor_false_fails(line: tuple[Line, str], done: Any) -> None:
    line[0].done = lambda at: done if at else False
    async with connect(line[1], wire="openenv") as env, env.session() as session:
        with pytest.raises(SessionFailed, match="neither true nor false"):
            await session.call("step", {"by": 1})


async def test_an_episode_that_is_over_when_it_begins_fails(line: tuple[Line, str]) -> None:
    """Nobody could act in it; it scored 0."""
    line[0].done = lambda at: True
    async with connect(line[1], wire="openenv") as env:
        with pytest.raises(SessionFailed, match="over already"):
            await env.session()


async def test_an_answer_that_nobody_asked_for_fails_the_session(line: tuple[Line, str]) -> None:
    """It was taken for the answer to the next step, which was not sent."""
    async with connect(line[1], wire="openenv") as env:
        for ask in (lambda session: session.call("step", {"by": 1}), lambda session: session.verify()):
            async with env.session() as session:
                await session.call("step", {"by": 1})
                socket: Any = vars(session)["_socket"]
                socket._deliver(json.dumps(line[0].observed(2, 9.0)).encode())
                with pytest.raises(SessionFailed, match="more than once"):
                    await ask(session)


@pytest.mark.parametrize("told", ["fail", "tell"])
async def test_an_exception_inside_fails_or_is_told(line: tuple[Line, str], told: Any) -> None:
    options = OpenEnvOptions(on_execution_error=told)
    async with connect(line[1], wire="openenv", openenv=options) as env, env.session() as session:
        if told == "tell":
            result = await session.call("step", {"by": 42})
            assert (result.text, result.is_error) == ("no such place", True)
        else:
            with pytest.raises(SessionFailed, match=r"[a-z_]+:exception at call: no such place"):
                await session.call("step", {"by": 42})


async def test_a_lost_socket_is_not_reopened(line: tuple[Line, str]) -> None:
    async with connect(line[1], wire="openenv") as env, env.session() as session:
        with pytest.raises(SessionFailed, match="transport_peer_drop at call"):
            await session.call("step", {"by": 13})
        with pytest.raises(SessionFailed, match="transport_peer_drop"):
            await session.verify()
    assert line[0].sockets == 1


async def test_a_full_server_is_waited_for(line: tuple[Line, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gymwire.adapters.patience.uniform", lambda low, high: 0.01)
    line[0].full = 2
    async with connect(line[1], wire="openenv") as env, env.session() as session:
        assert (await session.call("step", {"by": 1})).text == '{"at": 1}'
    assert line[0].sockets == 3


async def test_sessions_share_nothing(line: tuple[Line, str]) -> None:
    async def walk(env: Any, by: int) -> str:
        async with env.session() as session:
            await session.call("step", {"by": by})
            return (await session.call("step", {"by": by})).text

    async with connect(line[1], wire="openenv") as env:
        texts = await asyncio.gather(*(walk(env, -by) for by in range(30)))
    assert texts == [f'{{"at": {-2 * by}}}' for by in range(30)]


async def test_wrong_inputs(line: tuple[Line, str]) -> None:
    with pytest.raises(WrongRequest, match="last, sum or max"):
        await connect(line[1], wire="openenv", openenv=OpenEnvOptions(reward="mean")).open()  # type: ignore[arg-type]
    with pytest.raises(WrongRequest, match="no action schema"):
        await connect(line[1] + "elsewhere", wire="openenv").open()
    async with connect(line[1], wire="openenv") as env:
        with pytest.raises(WrongRequest, match=r"use row= .--rows. or seed="):
            await env.session(split="train", index=0)


async def test_an_error_that_shows_what_it_was_asked_shows_no_token(line: tuple[Line, str]) -> None:
    _, url = line
    async with connect(url, wire="openenv", token="tok-" + "x" * 20) as connection:
        session = await connection.session(row=Row.of("Walk to 3."))
        with pytest.raises(SessionFailed, match=r"no such placeBearer \[token\]") as failed:
            await session.call("step", {"by": 42})
        assert "tok-" not in failed.value.reason
