"""An environment that asks for a sandbox has one: the process's, opened for it, closed with the server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from gymwire.adapters.connect import connect
from gymwire.adapters.session import SessionFailed, Task
from gymwire.servers import Environment, Row, Transcript, tool
from gymwire.servers.catalog import Served
from gymwire.servers.environment import DefinitionError
from gymwire.servers.failures import assign
from gymwire.servers.sandbox import select
from gymwire.servers.sandbox.jobs import Sandbox, SandboxUnavailable
from gymwire.servers.sandbox.select import Choice, SharedSandbox, launcher_of
from gymwire.servers.types import FailureKind, Stage

from tests.servers.sandbox.programs import program


class Runs(Environment):
    """Runs programs; worth 1."""

    def __init__(self, sandbox: Sandbox, greeting: str = "print('hello')") -> None:
        self.sandbox, self.greeting = sandbox, greeting

    @tool
    async def run(self) -> str:
        """Run the greeting."""
        return (await self.sandbox.run(program(self.greeting))).stdout.decode()

    def verify(self, transcript: Transcript) -> float:
        return 1.0


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with no engine and no bubblewrap."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setattr(select.shutil, "which", lambda name: None)


@pytest.mark.docker
async def test_an_environment_in_this_process_has_a_sandbox_of_its_own(
    image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GYMWIRE_SANDBOX", "docker")
    monkeypatch.setenv("GYMWIRE_SANDBOX_IMAGE", image)
    async with connect(Runs) as connection:
        for _ in range(2):
            async with await connection.seed(Task(row=Row())) as session:
                assert (await session.call("run", {})).text == "hello\n"
                assert (await session.verify([])).reward == 1.0


@pytest.mark.docker
async def test_environments_of_a_server_share_one_pool(image: str) -> None:
    shared = SharedSandbox(Choice("docker", image, 2))
    first, second = Served(Runs, sandbox=shared), Served(type("Others", (Runs,), {}), sandbox=shared)
    try:
        await first.prepare()
        await second.prepare()
        made, other = first.make(), second.make()
        assert isinstance(made, Runs) and isinstance(other, Runs) and made.sandbox is other.sandbox
    finally:
        await first.close()
        await second.close()


async def test_an_environment_that_asks_for_none_opens_none(nowhere: None) -> None:
    plain = type("Plain", (Environment,), {"verify": lambda self, transcript: 1.0})
    served = Served(plain, sandbox=SharedSandbox(Choice()))
    await served.prepare()
    assert not served.wants_sandbox
    await served.close()


async def test_a_missing_sandbox_is_an_error_at_start_that_says_what_to_do(nowhere: None) -> None:
    with pytest.raises(DefinitionError, match=r"runs needs a sandbox: .*install bubblewrap"):
        await Served(Runs, sandbox=SharedSandbox(Choice())).prepare()


async def test_a_missing_sandbox_fails_a_session_in_this_process_and_scores_nothing(nowhere: None) -> None:
    async with connect(Runs) as connection:
        with pytest.raises(SessionFailed) as failed:
            await connection.seed(Task(row=Row()))
    assert failed.value.kind == FailureKind.PROVIDER_UNAVAILABLE


def test_a_sandbox_with_one_slot_is_refused_at_start_with_the_fix(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-token\n")
    for command in (["serve", "code_tests"], ["sandbox", "serve", "--token-file", str(token)]):
        words = [sys.executable, "-m", "gymwire.servers.cli", *command, "--port", "0", "--sandbox-slots", "1"]
        said = subprocess.run([*words, "--sandbox", "bubblewrap"], capture_output=True, text=True, timeout=30)
        assert said.returncode != 0 and "Traceback" not in said.stderr
        assert "--sandbox-slots 2" in " ".join(said.stderr.split())


@pytest.mark.parametrize("backend", ["docker", "bubblewrap"])
async def test_a_backend_that_was_asked_for_is_never_replaced(nowhere: None, backend: str) -> None:
    launcher = launcher_of(Choice(backend))
    assert launcher.name == backend
    with pytest.raises(SandboxUnavailable):
        await launcher.open()


def test_the_backend_without_isolation_must_be_permitted(nowhere: None) -> None:
    with pytest.raises(SandboxUnavailable, match="--allow-unsafe-sandbox"):
        launcher_of(Choice("subprocess"))
    assert launcher_of(Choice("subprocess", allow_unsafe=True)).name == "subprocess"
    with pytest.raises(SandboxUnavailable, match="docker, bubblewrap, subprocess"):
        launcher_of(Choice("chroot"))


@pytest.mark.parametrize("stage", [Stage.SEED, Stage.CALL, Stage.VERIFY])
def test_a_lost_sandbox_is_our_failure_at_every_stage(stage: Stage) -> None:
    failure = assign(SandboxUnavailable("the engine has stopped"), "runs", stage, "run")
    assert (failure.kind, failure.reason) == (FailureKind.PROVIDER_UNAVAILABLE, "the engine has stopped")
