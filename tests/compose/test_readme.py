"""The commands of compose/README.md, as they stand there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from pathlib import Path

import aiohttp
import pytest

from tests import docker_engine
from tests.compose import playing
from tests.compose.project import FILES, FOLDER, Project, plugin_folder

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(700)]
SESSIONS = 16


def blocks(heading: str) -> list[str]:
    """The shell blocks of a section, in order."""
    section = (FOLDER / "README.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def run(project: Project, script: str, folder: Path) -> str:
    """A block, at this deployment's port, in a folder of the test's own."""
    return project.run(["bash", "-euc", script.replace(":8200", f":{project.port}")], 300, folder)


def test_a_first_episode(project: Project, tmp_path: Path) -> None:
    project.up(1)
    said = run(project, blocks("Start")[1], tmp_path).splitlines()
    assert '"reward":' in said[-1] and '"mask_sample"' not in said[-1]


async def test_a_rotated_token_takes_over_and_the_old_one_is_refused(project: Project, tmp_path: Path) -> None:
    adding, removing = blocks("Tokens")[0].split("# ... give")
    removing = adding[: adding.index('\nrun "umask')] + "\n#" + removing
    old, figures = project.secret("tokens/tokens").split()[::3]
    new = run(project, adding, tmp_path).split()[-1]
    await _until(project, {old: 200, new: 200})
    run(project, removing, tmp_path)
    await _until(project, {old: 401, new: 200})
    assert project.secret("tokens/tokens").split()[::3] == [new, figures]


async def _until(project: Project, expected: dict[str, int]) -> None:
    """Ask until each token gets its status: the servers look at the file twice a second."""
    statuses: dict[str, int] = {}
    async with aiohttp.ClientSession() as http, asyncio.timeout(15):
        while statuses != expected:
            for token in expected:
                headers = {"Authorization": f"Bearer {token}"}
                async with http.get(f"{project.url}/environments", headers=headers) as answer:
                    statuses[token] = answer.status
            await asyncio.sleep(0.1)


async def test_the_signing_key_is_replaced_under_live_sessions(project: Project, tmp_path: Path) -> None:
    """The third step has to wait for the sessions that the old key named."""
    replacing = blocks("The signing key")[0].partition("# ... when")[0].replace("./roll.sh", f"{FOLDER}/roll.sh")
    project.up(1)
    old = project.secret("signing/key").split()

    def replace() -> None:
        run(project, replacing, tmp_path)

    kept = await playing.interrupted(project, "counter", playing.REMOTE, SESSIONS, replace)
    assert kept == await playing.undisturbed(project, "counter", playing.REMOTE, SESSIONS)
    assert (keys := project.secret("signing/key").split())[1:] == old and keys[0] != old[0]


async def test_sessions_come_back_from_a_backup(project: Project, tmp_path: Path) -> None:
    copying, restoring = blocks("Back up and restore the sessions")

    def lose_and_restore() -> None:
        run(project, copying, tmp_path)
        assert project.compose("exec", "-T", "redis", "redis-cli", "flushall").strip() == "OK"
        run(project, restoring, tmp_path)

    kept = await playing.interrupted(project, "counter", ["nemo-gym"], SESSIONS, lose_and_restore)
    assert kept == await playing.undisturbed(project, "counter", ["nemo-gym"], SESSIONS)


def test_every_variable_is_explained_with_its_default() -> None:
    explained = dict(re.findall(r"^(?:# )?([A-Z_]+)=(.*)$", (FOLDER / ".env.example").read_text(), re.MULTILINE))
    text = "".join((FOLDER / name).read_text() for name in ("compose.yaml", "compose.debian.yaml"))
    used = dict(re.findall(r"\$\{([A-Z_]+):-([^}]*)\}", text.replace("gymwire-haproxy", "haproxy:3.0")))
    used |= {"REDIS_IMAGE": "redis:7.4-bookworm"}  # compose.debian.yaml has another one
    assert explained == used


def test_a_copy_of_the_example_lets_the_debian_images_have_their_own_names() -> None:
    """Else what is built from Debian's packages would be called `haproxy:3.0` on this machine."""
    docker_engine.required()
    environment = {"PATH": os.environ["PATH"], "DOCKER_CONFIG": str(plugin_folder()), "COMPOSE_FILE": ":".join(FILES)}
    command = ["docker", "compose", "--env-file", ".env.example", "config", "--format", "json"]
    services = json.loads(subprocess.check_output(command, cwd=FOLDER, env=environment))["services"]
    images = [services[name]["image"] for name in ("gateway", "redis")]
    assert images == ["gymwire-haproxy", "gymwire-redis"]
