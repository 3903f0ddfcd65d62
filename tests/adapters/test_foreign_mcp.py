"""MCP servers of others: handles, rewards, patterns, several servers, commands and HTTP."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gymwire.adapters import McpOptions, SessionFailed, WrongRequest, connect
from gymwire.adapters.foreign_mcp import read_handle, read_reward, without_mentions
from gymwire.servers import Ending, Row, Transcript

from tests.serving import serving

SHOP = [sys.executable, str(Path(__file__).with_name("strange_shop.py"))]
STATE = McpOptions(state_tool="open_shop", state_arg="session_id", reset_fields=("level",), reward_tool="grade")
ROW = Row.of("Buy.", level=7, secret="x")


@pytest.mark.parametrize("over", ["http", "stdio"])
async def test_the_handle_is_hidden_and_filled_in(shop: str, over: str) -> None:
    async with connect(shop if over == "http" else SHOP, wire="mcp", mcp=STATE) as env:
        first, second = [await env.session(row=ROW) for _ in range(2)]
        tools = {tool.name: tool for tool in first.tools}
        assert set(tools) == {"add_item", "view", "look_around", "walk_around", "photo", "process", "die"}
        assert all("session_id" not in f"{tool.parameters} {tool.description}" for tool in tools.values())
        assert tools["add_item"].parameters["required"] == ["sku"]
        assert "Put an article in the basket." in tools["add_item"].description
        assert "sku: The article." in tools["add_item"].description
        assert (await first.call("add_item", {"sku": "apple"})).text == "added apple"
        await second.call("add_item", {"sku": "pear", "session_id": "nosuch"})
        assert (await first.call("view", {})).text == "level 7\napple"
        assert (await second.call("view", {})).text == "level 7\npear"


async def test_the_reward_tool_scores_and_the_policy_cannot_reach_it(shop: str) -> None:
    async with connect(shop, wire="mcp", mcp=STATE) as env, env.session(row=ROW) as session:
        await session.call("add_item", {"sku": "apple"})
        for name in ("grade", "open_shop", "verify"):
            assert "There is no tool called" in (await session.call(name, {"answer": "done"})).text
        outcome = await session.verify([{"role": "assistant", "content": "done"}], ending=Ending.CUT)
        assert (outcome.reward, outcome.ending) == (1.5, Ending.CUT)
        with pytest.raises(SessionFailed, match="verifier_error at verify"):
            await session.verify([{"role": "assistant", "content": "break"}])


@pytest.mark.parametrize("over", ["http", "stdio"])
async def test_calls_go_beside_each_other_only_where_the_server_calls_a_tool_read_only(shop: str, over: str) -> None:
    def grader(transcript: Transcript) -> float:
        assert [record.arguments for record in transcript.calls[:2]] == [{"seconds": 0.1}, {}]
        assert [record.result.text for record in transcript.calls[:2]] == ["in company"] * 2
        return float(len(transcript.calls))

    options = replace(STATE, reward_tool="", grader=grader, allowed_tools=("*_around",))
    server = shop if over == "http" else SHOP
    async with connect(server, wire="mcp", mcp=options) as env, env.session(row=ROW) as session:
        assert {tool.name: tool.read_only for tool in session.tools} == {"look_around": True, "walk_around": False}
        for name, text in (("look_around", "in company"), ("walk_around", "alone")):
            work = [session.call(name, {"seconds": 0.1}), session.call(name)]
            assert [result.text for result in await asyncio.gather(*work)] == [text] * 2
        assert (await session.verify()).reward == 4.0


async def test_mistakes_are_results(shop: str) -> None:
    async with connect(shop, wire="mcp", mcp=STATE) as env, env.session(row=ROW) as session:
        refused = await session.call("add_item", {"sku": "boom"})
        assert refused.is_error and "there is no such article" in refused.text
        assert (await session.call("add_item", {"sku": 5})).is_error
        assert (await session.call("add_item", "[1]")).is_error


@pytest.mark.parametrize("media", ["placeholder", "pass"])
async def test_pictures_are_placeholders_or_passed_on(shop: str, media: Any) -> None:
    async with connect(shop, wire="mcp", mcp=McpOptions(media=media)) as env, env.session() as session:
        result = await session.call("photo")
        assert ("[image: image/png]" in result.text, len(result.media)) == (media == "placeholder", media == "pass")


async def test_several_servers_have_prefixes_and_patterns_choose_tools(shop: str) -> None:
    options = McpOptions(allowed_tools=("east__view", "west__p*"))
    async with connect({"east": shop, "west": SHOP}, mcp=options) as env, env.session() as session:
        assert [tool.name for tool in session.tools] == ["east__view", "west__photo", "west__process"]
        assert "session_id" in session.tools[0].parameters["properties"]
        assert int((await session.call("west__process")).text) > 0
        assert (await session.call("east__view", {"session_id": "nosuch"})).is_error


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (McpOptions(allowed_tools=("view", "paint_*")), "'paint_*' matches no tool"),
        (McpOptions(allowed_tools=("grade",), reward_tool="grade"), "'grade' matches no tool"),
        (McpOptions(state_tool="open"), "state_tool 'open' is no tool of the server"),
        (McpOptions(reset_fields=("level",)), "name that, too"),
    ],
)
async def test_options_that_name_what_is_not_there(shop: str, options: McpOptions, sentence: str) -> None:
    with pytest.raises(WrongRequest) as caught:
        await connect(shop, wire="mcp", mcp=options).open()
    assert sentence in str(caught.value)


async def test_a_client_side_grader(shop: str) -> None:
    def grader(transcript: Transcript) -> dict[str, float]:
        bought = len(transcript.calls_to("add_item"))
        return {"bought": float(bought), "said": 0.25 * (transcript.answer == "done")}

    options = McpOptions(state_tool="open_shop", state_arg="session_id", grader=grader)
    async with connect(shop, wire="mcp", mcp=options) as env, env.session(row=ROW) as session:
        await session.call("add_item", {"sku": "apple"})
        assert (await session.verify([{"role": "assistant", "content": "done"}])).reward == 1.25


async def test_a_grader_that_breaks_and_no_grader_at_all_are_failures(shop: str) -> None:
    def broken(_: Transcript) -> float:
        raise KeyError("x")

    for options in (McpOptions(grader=broken), McpOptions(grader=lambda _: float("nan")), McpOptions()):
        async with connect(shop, wire="mcp", mcp=options) as env, env.session() as session:
            with pytest.raises(SessionFailed, match="verifier_error"):
                await session.verify()


async def test_sessions_without_a_handle_have_a_server_each() -> None:
    async with connect(SHOP) as env, env.session() as first, env.session() as second:
        assert (await first.call("process")).text != (await second.call("process")).text


async def test_a_server_that_dies_fails_its_session() -> None:
    async with connect(SHOP) as env, env.session() as session:
        with pytest.raises(SessionFailed) as caught:
            await session.call("die")
        assert caught.value.kind in ("transport_peer_drop", "provider_unavailable")
        with pytest.raises(SessionFailed):
            await session.call("process")


@pytest.mark.parametrize("command", [["/no/such/program"], [sys.executable, "-c", "print('hello')"]])
async def test_a_command_that_is_no_server(command: list[str]) -> None:
    with pytest.raises(WrongRequest, match="does not answer"):
        await connect(command).open()


async def test_a_stranger_has_no_rows(shop: str) -> None:
    async with connect(shop, wire="mcp") as env:
        with pytest.raises(WrongRequest, match="give it one with row="):
            await env.session(split="train", index=0)


# Parts


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Add. Needs the sid of the shop. Fast.", "Add. Fast."),
        ("Add.\n\nArgs:\n    sid: The handle.", "Add."),
        ("Add.\n\nArgs:\n    sid: The handle.\n    n: A number.", "Add.\n\nArgs:\n    n: A number."),
        ("The president adds.", "The president adds."),
    ],
)
def test_mentions_of_the_handle_go(text: str, left: str) -> None:
    assert without_mentions(text, "sid") == left


def answer(text: str, structured: Any = None) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "structuredContent": structured}


@pytest.mark.parametrize(
    ("said", "handle"),
    [
        (answer("abc\n"), "abc"),
        (answer('{"sid": "a", "level": 1}'), "a"),
        (answer('{"other": "b"}'), "b"),
        (answer("x", {"result": "c"}), "c"),
        (answer("17"), 17),
        (answer("[" * 100_000), "[" * 100_000),
    ],
)
def test_handles_are_read(said: dict[str, Any], handle: Any) -> None:
    assert read_handle(said, "sid") == handle


@pytest.mark.parametrize("text", ['{"a": 1, "b": 2}', '{"sid": null}', '{"sid": ""}', "{}", ""])
def test_an_answer_without_a_handle_fails_the_seed(text: str) -> None:
    with pytest.raises(SessionFailed, match="names no handle"):
        read_handle(answer(text), "sid")


@pytest.mark.parametrize("said", [answer("0.5"), answer('{"score": 0.5}'), answer("x", {"result": 0.5})])
def test_rewards_are_read(said: dict[str, Any]) -> None:
    assert read_reward(said) == 0.5


PLAIN = [sys.executable, str(Path(__file__).with_name("plain_mcp.py"))]


async def test_an_answer_that_is_no_result_fails_its_session_and_no_other() -> None:
    """It counted as a lost connection: the sessions that share it were lost with the next seed."""
    options = McpOptions(state_arg="session", grader=lambda _: 1.0)
    async with connect(PLAIN, mcp=options) as connection:
        first, second = await connection.session(), await connection.session()
        with pytest.raises(
            SessionFailed, match="no_content answered no tool result: content: Field required"
        ) as failed:
            await first.call("no_content")
        assert failed.value.kind == "provider_unavailable"
        await connection.session()
        assert (await second.call("well")).text == "well"
        assert (await second.verify()).reward == 1.0


async def test_a_result_that_is_structured_alone_is_shown_as_json() -> None:
    async with connect(PLAIN, mcp=McpOptions(grader=lambda _: 1.0)) as connection, connection.session() as session:
        assert (await session.call("only_structured")).text == '{"a": [1, null]}'


async def test_a_schema_that_is_none_is_named() -> None:
    with pytest.raises(WrongRequest, match=r"tools\.0\.inputSchema\.type: Field required"):
        await connect([*PLAIN, "untyped"], mcp=McpOptions()).open()


@pytest.mark.parametrize("wire", ["nemo-gym", "openenv", "mcp"])
async def test_a_bridge_takes_schemas_that_say_null_and_no_control_calls(wire: str, tmp_path: Path) -> None:
    words = (" ".join(PLAIN), "--from", "mcp", "--grader", "exact")
    with serving(tmp_path / "log", *words, command="bridge") as running:
        async with connect(running.url, wire=wire) as connection:
            row = Row.of("Well?", expected_answer="well")
            async with connection.session(row=row) as session:
                assert [tool.name for tool in session.tools] == ["well", "only_structured", "no_content"]
                assert (await session.call("well")).text == "well"
                assert (await session.verify([{"role": "assistant", "content": "well"}])).reward == 1.0
        assert "control calls of a wire: verify" in running.log_text()
