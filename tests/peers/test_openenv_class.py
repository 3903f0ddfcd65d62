"""An OpenEnv environment's class, hosted by `gymwire bridge` beside openenv-core 0.3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gymwire.adapters import connect

from tests.peers.foreign_servers import LOOPBACK, written_by_openenv
from tests.peers.processes import answers, started, wait_until
from tests.peers.venvs import beside_peer, peer_env, required
from tests.serving import free_port

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def parrot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, port = tmp_path_factory.mktemp("parrot"), free_port()
    python = required(beside_peer, "openenv_core")
    home, log = written_by_openenv(python, folder), folder / "bridge.log"
    words = ["server.parrot_environment:ParrotEnvironment", "--from", "openenv-class", "--set", "reward=sum"]
    command: list[str | Path] = [python, "-m", "gymwire.servers.cli", "bridge", *words, "--port", str(port)]
    url = f"http://{LOOPBACK}:{port}"
    with started(command, log, peer_env(python), home) as process:
        wait_until(lambda: answers(f"{url}/health"), process, log)
        yield url


@pytest.mark.parametrize("wire", ["nemo-gym", "openenv", "mcp"])
async def test_a_class_plays_on_every_wire(parrot: str, wire: str) -> None:
    async with connect(parrot, wire=wire) as connection:
        assert connection.info.name == "parrot_environment"
        async with connection.session(seed=1) as session:
            assert "ready" in session.prompt[-1]["content"]
            assert session.tools[0].parameters["required"] == ["message"]
            assert (
                await session.call("act", {"message": "hi"})
            ).text == '{"echoed_message": "hi", "message_length": 2}'
            assert (await session.call("act", {"msg": 1})).is_error
            await session.call("act", {"message": "hello you"})
            assert (await session.verify()).reward == pytest.approx(1.1)
