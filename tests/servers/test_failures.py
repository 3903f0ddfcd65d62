"""Every failure has a kind from one vocabulary, a short reason, and is recorded once."""

from __future__ import annotations

import asyncio
import logging

import pytest
from gymwire.servers import SessionFailure
from gymwire.servers.context import About
from gymwire.servers.failures import BadReward, FailureLog, ToolTimeout, assign, one_line
from gymwire.servers.types import Failure, FailureKind, Stage


@pytest.mark.parametrize(
    ("error", "stage", "kind"),
    [
        (RuntimeError("x"), Stage.CALL, "shop:exception"),
        (RuntimeError("x"), Stage.SEED, "shop:exception"),
        (ToolTimeout("x"), Stage.CALL, "shop:tool_timeout"),
        (RuntimeError("x"), Stage.VERIFY, FailureKind.VERIFIER_ERROR),
        (ToolTimeout("x"), Stage.VERIFY, FailureKind.VERIFIER_ERROR),
        (BadReward("x"), Stage.VERIFY, FailureKind.VERIFIER_ERROR),
        (SessionFailure("x", "judge_failed"), Stage.VERIFY, FailureKind.JUDGE_FAILED),
        (SessionFailure("x", FailureKind.PROVIDER_OOM_KILLED), Stage.CALL, FailureKind.PROVIDER_OOM_KILLED),
        (SessionFailure("x"), Stage.CALL, "shop:exception"),
        (SessionFailure("x", "disk_full"), Stage.CALL, "shop:disk_full"),
        (SessionFailure("x", "other:kind"), Stage.CALL, "other:kind"),
        (asyncio.CancelledError(), Stage.CALL, "shop:exception"),
    ],
)
def test_the_kind_follows_from_the_error_and_the_stage(error: BaseException, stage: Stage, kind: str) -> None:
    failure = assign(error, "shop", stage, "buy")
    assert failure == Failure(kind, failure.reason, stage, "buy") and failure.reason


@pytest.mark.parametrize("kind", list(FailureKind))
def test_every_public_kind_can_be_raised(kind: FailureKind) -> None:
    assert assign(SessionFailure("x", kind.value), "shop", Stage.CALL).kind == kind


def test_reasons_are_one_short_line_that_any_wire_carries() -> None:
    assert one_line("a\nb\tc\ud800\x00") == "a b c  "
    assert len(one_line("x" * 50_000_000)) == 300
    assert assign(ValueError("bad\nnews"), "shop", Stage.CALL).reason == "ValueError: bad news"
    assert len(assign(SessionFailure("x", "k\n" * 1000), "shop", Stage.CALL).kind) < 100


def test_a_failure_is_logged_and_every_observer_hears_of_it(caplog: pytest.LogCaptureFixture) -> None:
    log, heard = FailureLog(), []
    log.observers.append(lambda environment, failure: heard.append((environment, failure)))
    failure = Failure("shop:exception", "RuntimeError: x", Stage.CALL, "buy")
    with caplog.at_level(logging.ERROR):
        log.record(About("abc", "shop"), failure, RuntimeError("x"))
    assert heard == [("shop", failure)]
    assert "session abc of shop failed: shop:exception at call in buy: RuntimeError: x" in caplog.text
