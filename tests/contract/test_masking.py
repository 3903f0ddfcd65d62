"""Whatever breaks on our side is masked, alike on every wire, and nothing turns it back into a reward."""

from __future__ import annotations

from typing import Any

import pytest
from gymwire.adapters import SessionFailed
from gymwire.servers.types import FailureKind, Row

from tests.wires import WIRES, world
from tests.worlds import RETURNED

CRASHES = ["raise", "hang", "exit", "memory", "stop", "bytes", "object", "a picture of bytes"]


def broken(stage: str, how: str = "raise", kind: str = "") -> Row:
    return Row.of("Try.", stage=stage, how=how, kind=kind)


async def failure_on(wire: str, url: str, row: Row, tool: str = "") -> tuple[str, str, str]:
    """How one session fails: kind, reason, stage. It must then stay failed."""
    async with world("breaks", wire, url) as connection:
        try:
            session = await connection.session(row=row)
        except SessionFailed as failure:
            return failure.kind, failure.reason, failure.stage
        async with session:
            with pytest.raises(SessionFailed) as caught:
                if tool:
                    await session.call(tool)
                elif row.data["stage"] == "end_turn":
                    await session.end_turn()
                await session.verify()
            for work in (session.call("act"), session.verify(), session.end_turn()):
                with pytest.raises(SessionFailed):
                    await work
    return caught.value.kind, caught.value.reason, caught.value.stage


async def alike(url: str, row: Row, tool: str = "") -> tuple[str, str, str]:
    found = [await failure_on(wire, url, row, tool) for wire in WIRES]
    assert all(one == found[0] for one in found), dict(zip(WIRES, found, strict=True))
    kind, reason, _ = found[0]
    assert kind and reason and reason.isprintable() and len(reason) <= 300
    return found[0]


@pytest.mark.parametrize("how", CRASHES)
async def test_a_tool_that_breaks(worlds: str, how: str) -> None:
    kind, _, stage = await alike(worlds, broken("call", how), "crash")
    assert kind == ("breaks:tool_timeout" if how == "hang" else "breaks:exception") and stage == "call"


@pytest.mark.parametrize("how", ["raise", "hang", "exit", "stop"])
async def test_a_tool_that_breaks_in_a_thread(worlds: str, how: str) -> None:
    kind, _, _ = await alike(worlds, broken("call", how), "crash_in_thread")
    assert kind == ("breaks:tool_timeout" if how == "hang" else "breaks:exception")


@pytest.mark.parametrize("how", ["raise", "hang", "exit", "bytes"])
async def test_a_reset_that_breaks(worlds: str, how: str) -> None:
    kind, _, stage = await alike(worlds, broken("reset", how))
    assert kind == ("breaks:tool_timeout" if how == "hang" else "breaks:exception") and stage == "seed"


@pytest.mark.parametrize("how", ["raise", "hang", "exit", "bytes"])
async def test_an_end_turn_that_breaks(worlds: str, how: str) -> None:
    kind, _, stage = await alike(worlds, broken("end_turn", how))
    assert kind == ("breaks:tool_timeout" if how == "hang" else "breaks:exception") and stage == "end_turn"


@pytest.mark.parametrize("how", ["raise", "hang", "exit", "nan", "inf", "true", "text", "bytes", "object"])
async def test_a_verify_that_breaks(worlds: str, how: str) -> None:
    kind, _, stage = await alike(worlds, broken("verify", how))
    assert kind == FailureKind.VERIFIER_ERROR and stage == "verify"


async def test_a_grader_that_says_so_itself(worlds: str) -> None:
    assert await alike(worlds, broken("verify", "none")) == ("judge_failed", "no judge", "verify")


async def test_a_verify_that_breaks_after_an_ending_call(worlds: str) -> None:
    kind, _, stage = await alike(worlds, broken("verify"), "finish")
    assert kind == FailureKind.VERIFIER_ERROR and stage == "call"


@pytest.mark.parametrize("kind", [*(kind.value for kind in FailureKind), "disk_full", "other:kind"])
async def test_every_kind_keeps_its_name(worlds: str, kind: str) -> None:
    named = kind if kind in frozenset(FailureKind) or ":" in kind else f"breaks:{kind}"
    assert await alike(worlds, broken("call", kind=kind), "crash") == (named, "it was said to", "call")


@pytest.mark.parametrize("wire", WIRES)
async def test_a_close_that_breaks_changes_nothing(worlds: str, wire: str) -> None:
    async with world("breaks", wire, worlds) as connection, connection.session(row=broken("close")) as session:
        assert (await session.verify()).reward == 1.0


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("how", ["surrogates", "nested surrogates", "nan", "50 MB", "50 MB of JSON", "true", "none"])
async def test_odd_values_that_have_a_text_are_results(worlds: str, wire: str, how: str) -> None:
    async with world("breaks", wire, worlds) as connection, connection.session(row=broken("call", how)) as session:
        result = await session.call("crash")
        assert not result.is_error and len(result.text) < 1_000_200 and result.text.encode()
        assert (await session.call("act")).text == "fine"
        assert (await session.verify()).reward == 1.0


async def test_odd_values_have_the_same_text_on_every_wire(worlds: str) -> None:
    for how in ("surrogates", "nested surrogates", "nan", "50 MB", "an error", "true"):
        texts: list[Any] = []
        for wire in WIRES:
            async with world("breaks", wire, worlds) as connection, connection.session(row=broken("call", how)) as one:
                texts.append(await one.call("crash"))
        assert all(text == texts[0] for text in texts), how
    assert set(RETURNED) >= {"surrogates", "nan", "50 MB"}


async def test_a_row_that_does_not_fit_is_the_callers_mistake_and_no_failure(worlds: str) -> None:
    from gymwire.adapters import WrongRequest

    texts = []
    for wire in WIRES:
        async with world("breaks", wire, worlds) as connection:
            with pytest.raises(WrongRequest) as caught:
                await connection.session(row=Row.of("x", stage=5))
            texts.append(str(caught.value))
    assert all("stage" in text for text in texts)
