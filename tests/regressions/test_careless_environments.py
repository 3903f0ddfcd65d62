"""What an author may get wrong: it is one sentence before the first session, or it fails one session and no more."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gymwire.adapters import SessionFailed, connect
from gymwire.servers import DefinitionError, Environment, Outcome, Row, SessionFailure, Transcript, tool
from gymwire.servers.catalog import Served, find
from gymwire.servers.commands.options import errors
from gymwire.servers.metrics import MAX_KINDS
from gymwire.servers.seeding import SeedRequest
from gymwire.servers.sessions import Sessions
from gymwire.servers.types import Ending

from tests.servers.faces.live import live
from tests.wires import WIRES

ODD_OUTCOMES: dict[str, tuple[Callable[[], Any], float | None]] = {
    "an ending as text": (lambda: Outcome("cut", 0.5), 0.5),  # type: ignore[arg-type]
    "an ending that there is not": (lambda: Outcome("over", 0.5), None),  # type: ignore[arg-type]
    "disagreements that are no text": (lambda: Outcome(Ending.FINISHED, 0.5, disagreements=(object(), 5)), 0.5),  # type: ignore[arg-type]
    "a whole number": (lambda: Outcome(Ending.FINISHED, 1, {"a": 1}), 1.0),
    "a reward and a failure": (lambda: Outcome(Ending.FINISHED, 0.5, failure_kind="judge_failed"), None),
    "a failure of numbers": (lambda: Outcome(Ending.FAILED, failure_kind=5, failure_reason=7), None),  # type: ignore[arg-type]
}


class Odd(Environment):
    """Grades oddly."""

    def verify(self, transcript: Transcript) -> Any:
        return ODD_OUTCOMES[self.row.data["how"]][0]()


async def test_an_odd_outcome_is_a_score_or_masked_on_every_wire() -> None:
    async with live(Odd) as server:
        for how, (_, reward) in ODD_OUTCOMES.items():
            for wire in WIRES:
                target: Any = Odd if wire == "local" else server.url
                async with (
                    connect(target, wire=wire) as connection,
                    connection.session(row=Row.of("x", how=how)) as one,
                ):
                    if reward is not None:
                        assert (await one.verify()).reward == reward, (how, wire)
                        continue
                    with pytest.raises(SessionFailed) as caught:
                        await one.verify()
                    assert caught.value.kind in ("verifier_error", "odd:5"), (how, wire, caught.value)


class SlowToMake(Environment):
    def __init__(self) -> None:
        time.sleep(0.5)

    def verify(self, transcript: Transcript) -> float:
        return 1.0


async def test_an_environment_that_is_slow_to_make_holds_up_nobody() -> None:
    sessions = Sessions()
    seeding = asyncio.gather(*(sessions.seed(Served(SlowToMake), SeedRequest(Row())) for _ in range(4)))
    started, late_s = time.perf_counter(), 0.0
    while not seeding.done():
        before = time.perf_counter()
        await asyncio.sleep(0.01)
        late_s = max(late_s, time.perf_counter() - before)
    assert late_s < 0.3 and time.perf_counter() - started < 1.5
    await sessions.drain(0)


class EndsSlowly(Environment):
    tool_timeout_s = 0.2

    @tool(ends=True)
    async def finish(self) -> str:
        return "over"

    async def verify(self, transcript: Transcript) -> float:
        return 1.0


@pytest.mark.parametrize("wire", WIRES[1:])
async def test_a_client_waits_for_the_verdict_of_a_call_that_ends_the_episode(
    wire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slowly(self: Any, transcript: Transcript) -> float:
        await asyncio.sleep(0.8)
        return 1.0

    monkeypatch.setattr(EndsSlowly, "verify", slowly)
    monkeypatch.setattr("gymwire.adapters.endpoint.MARGIN_S", 0.1)
    async with (
        live(EndsSlowly) as server,
        connect(server.url, wire=wire) as connection,
        connection.session() as session,
    ):
        assert (await session.call("finish")).done
        assert (await session.verify()).reward == 1.0


class InventsKinds(Environment):
    def verify(self, transcript: Transcript) -> float:
        raise SessionFailure("x", kind=f"kind-{self.row.data['number']}")


async def test_invented_failure_kinds_do_not_fill_the_metrics() -> None:
    sessions = Sessions()
    served = Served(InventsKinds)
    for number in range(MAX_KINDS + 20):
        await (await sessions.seed(served, SeedRequest(Row.of("x", number=number)))).verify()
    lines = [
        line for line in sessions.metrics.text().decode().splitlines() if line.startswith("gymwire_failures_total")
    ]
    assert len(lines) == MAX_KINDS + 1 and any('kind="other"' in line and line.endswith(" 20.0") for line in lines)
    await sessions.drain(0)


async def test_a_row_of_a_thousand_levels_is_the_clients_mistake() -> None:
    data: Any = []
    for _ in range(5_000):
        data = [data]
    sessions = Sessions()
    with pytest.raises(Exception, match="nested too deeply") as caught:
        await sessions.seed(Served(Odd), SeedRequest(Row(data={"how": data})))
    assert caught.value.code == "invalid_row" and caught.value.failure is None


def _define(**body: Any) -> None:
    type("Careless", (Environment,), {"verify": lambda self, transcript: 1.0, **body})


@tool
def yields(self: Any) -> Iterator[int]:
    yield 1


@tool
async def yields_later(self: Any) -> Any:
    yield 1


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"splits": "train"}, r"splits is a sequence of names, such as \('train',\)"),
        ({"tool_timeout_s": 0}, "tool_timeout_s is a number of seconds above 0, got 0"),
        ({"tool_timeout_s": float("inf")}, "tool_timeout_s is a number"),
        ({"tool_timeout_s": None}, "tool_timeout_s is a number"),
        ({"verify_timeout_s": float("nan")}, "verify_timeout_s is a number"),
        ({"yields": yields}, "yields: a tool returns its result; it does not yield"),
        ({"yields_later": yields_later}, "does not yield"),
        ({"act": tool(timeout_s=float("inf"))(lambda self: 1)}, "act|lambda"),
    ],
)
def test_a_careless_definition_is_refused_in_a_sentence(body: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DefinitionError, match=sentence):
        _define(**body)


class Unready(Environment):
    splits = ("train",)

    def verify(self, transcript: Transcript) -> float:
        return 1.0


def _raises(*_: Any, **__: Any) -> Any:
    raise KeyError("no\nbase")


@pytest.mark.parametrize(
    ("name", "made", "sentence"),
    [
        ("setup", _raises, r"unready: `setup` failed: KeyError: 'no\\nbase' \(.*\.py:\d+\)"),
        ("rows", _raises, r"unready: `rows` failed for split 'train': KeyError"),
        ("rows", lambda split, count, seed: None, "`rows` failed .* not iterable"),
        ("rows", lambda split, count, seed: [{}], "`rows` yields Row objects, not dict"),
        ("rows", lambda split, count, seed: [], "has no rows"),
    ],
)
async def test_what_cannot_be_prepared_is_a_sentence(
    name: str, made: Any, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Unready, name, made)
    with pytest.raises(DefinitionError, match=sentence) as caught:
        await Served(Unready).prepare()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def (", "importing 'unfit' failed: SyntaxError"),
        ("raise RuntimeError('x')", r"importing 'unfit' failed: RuntimeError: x \(.*unfit\.py:1\)"),
        ("raise SystemExit(3)", "importing 'unfit' failed: SystemExit: 3"),
        ("import nothing_like_this", "there is no module 'nothing_like_this'"),
        ("None.x", "importing 'unfit' failed: AttributeError"),
        ("x = 1", "module unfit has no A"),
        ("A = 1", "is no Environment"),
    ],
)
def test_a_module_that_cannot_be_imported_is_a_sentence(
    text: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unfit.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "unfit", raising=False)
    with pytest.raises(DefinitionError, match=sentence):
        find("unfit:A")
    monkeypatch.delitem(sys.modules, "unfit", raising=False)


def test_a_sentence_shows_what_was_typed() -> None:
    """`broken:A:` was shown with a picture instead of `:A:`."""
    with errors.capture() as captured:
        errors.print("gymwire: broken:A: and nothing:x:", markup=False)
    assert captured.get() == "gymwire: broken:A: and nothing:x:\n"
