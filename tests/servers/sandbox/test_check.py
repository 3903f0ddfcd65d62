"""`gymwire sandbox check`: what it proves holds on each backend, and what does not hold it finds."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from tempfile import TemporaryDirectory

import pytest
from gymwire.servers.cli import build
from gymwire.servers.sandbox import bubblewrap
from gymwire.servers.sandbox.attacks import ATTACKS, Attack, Limit
from gymwire.servers.sandbox.check import CLAIMS, Finding, check
from gymwire.servers.sandbox.select import Choice, launcher_of
from gymwire.servers.sandbox.slots import Launcher
from typer.testing import CliRunner, Result

from tests.servers.sandbox.backends import BACKENDS, launcher


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(build("sandbox"), ["sandbox", *arguments])


async def findings(made: Launcher, attacks: Sequence[Attack] = ATTACKS) -> list[Finding]:
    return [finding async for finding in check(lambda: made, tuple(attacks))]


def some(limit: Limit) -> list[Attack]:
    return [attack for attack in ATTACKS if attack.limit is limit]


def test_every_limit_has_an_attack_and_every_attack_a_name() -> None:
    assert {attack.limit for attack in ATTACKS} == set(Limit)
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 34


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
async def test_every_limit_that_is_claimed_holds(backend: str) -> None:
    found = await findings(launcher(backend))
    assert len(found) == len(ATTACKS)
    assert [finding for finding in found if not finding.held] == []


async def test_a_slot_without_its_filter_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = launcher("bubblewrap")
    monkeypatch.setattr(bubblewrap, "slot_filter", lambda: b"")
    (finding,) = await findings(made, some(Limit.KERNEL))
    assert finding.held is False and "io_uring_setup" in finding.evidence


async def test_a_slot_that_shows_a_folder_of_the_host_s_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = launcher("bubblewrap")
    with TemporaryDirectory(dir="/var/tmp") as shown:  # not below /tmp, where a slot has its own
        os.chmod(shown, 0o755)
        monkeypatch.setattr(tempfile, "tempdir", shown)
        monkeypatch.setattr(bubblewrap, "SYSTEM", (*bubblewrap.SYSTEM, shown))
        (finding,) = await findings(made, some(Limit.HOST))
    assert finding.held is False and "BROKEN a file in the host's folder of temporary files" in finding.evidence


async def test_the_backend_without_isolation_claims_little_and_holds_that() -> None:
    made = launcher_of(Choice("subprocess", allow_unsafe=True))
    quick = [attack for attack in ATTACKS if attack.limit not in (Limit.CPU, Limit.WALL)]
    found = await findings(made, quick)
    tried = {finding.limit for finding in found if finding.claimed}
    assert tried == CLAIMS["subprocess"] - {Limit.CPU, Limit.WALL}
    assert all(finding.held is (True if finding.claimed else None) for finding in found), found


def test_the_command_prints_a_table_or_json(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher("bubblewrap")
    monkeypatch.setattr(check, "__defaults__", (tuple(some(Limit.RIGHTS)),))
    table = run("check", "--backend", "bubblewrap")
    assert table.exit_code == 0 and "no rights" in table.stdout and "yes" in table.stdout
    data = json.loads(run("check", "--backend", "bubblewrap", "--json").stdout)
    assert data["backend"] == "bubblewrap" and data["holds"] is True
    assert [finding["held"] for finding in data["findings"]] == [True]


def test_the_command_fails_where_a_limit_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher("bubblewrap")
    monkeypatch.setattr(check, "__defaults__", (tuple(some(Limit.KERNEL)),))
    monkeypatch.setattr(bubblewrap, "slot_filter", lambda: b"")
    done = run("check", "--backend", "bubblewrap", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["holds"] is False
    assert "do not run programs of others in it" in done.stderr


def test_unsafe_is_said_and_asked_for(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = run("check", "--backend", "subprocess")
    assert refused.exit_code == 2 and "--allow-unsafe-sandbox" in refused.stderr
    monkeypatch.setattr(check, "__defaults__", (tuple(some(Limit.OUTPUT)),))
    assert run("check", "--backend", "subprocess", "--allow-unsafe-sandbox").exit_code == 0
    assert "isolates nothing" in caplog.text


def test_without_bubblewrap_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    done = run("check", "--backend", "bubblewrap")
    assert done.exit_code == 2 and "apt-get install bubblewrap" in done.stderr
