"""Servers that are not gymwire's: an MCP server whose state has a handle, and that others' tools could end."""

from __future__ import annotations

import pytest
from gymwire.adapters import McpOptions, WrongRequest
from gymwire.adapters.doctor.findings import Finding, Verdict
from gymwire.adapters.doctor.opening import Target, open_patient
from gymwire.adapters.doctor.patient import Options
from gymwire.adapters.doctor.run import examine

STATE = McpOptions(state_tool="open_shop", state_arg="session_id", reward_tool="grade")
CALLS = (("add_item", {"sku": "tea"}), ("view", {}))


async def examined(url: str) -> dict[str, Finding]:
    patient = await open_patient(Target(url, "mcp", mcp=STATE), Options(sessions=8, calls=CALLS))
    try:
        return {finding.promise.name: finding for finding in await examine(patient)}
    finally:
        await patient.wire.place.pool.close()


async def test_a_server_with_handles_is_examined_by_them(shop: str) -> None:
    found = await examined(shop)
    verdicts = {name: finding.verdict for name, finding in found.items()}
    kept = {"shapes", "isolated", "same-task", "repeatable", "reward", "unknown-handle", "bad-arguments", "latency"}
    assert {name: found[name].reason for name in kept if verdicts[name] is not Verdict.PASS} == {}
    assert verdicts["ends-with-verify"] is Verdict.FAIL  # its reward tool ends nothing
    assert verdicts["tool-schemas"] is Verdict.FAIL  # the SDK's titles
    assert verdicts["control-hidden"] is Verdict.NOT_APPLICABLE
    assert Verdict.ERROR not in verdicts.values()


async def test_a_tool_that_is_not_there_is_one_sentence(shop: str) -> None:
    with pytest.raises(WrongRequest, match="'no_such' is no tool of the server; it has: open_shop, add_item"):
        await open_patient(Target(shop, "mcp", mcp=McpOptions(state_tool="no_such")), Options())
