"""`docker compose up`, for real: episodes through the gateway, replicas that come and go; nothing lost or shown."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from gymwire.adapters.demo import bundled
from gymwire.adapters.demo_rounds import complaints
from gymwire.servers.environments.battery import Battery

from tests import docker_engine
from tests.compose import playing
from tests.compose.project import FOLDER, RUNNING, Project, plugin_folder
from tests.peers.parts import parts_of, played
from tests.peers.venvs import peer_python, required
from tests.peers.vf_eval import VfEval

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(700)]
SESSIONS = 48
SECRETS = ("tokens/tokens", "sandbox/token", "signing/key")


@pytest.mark.parametrize("profile", ["", "metrics", "trainer", "*"])
@pytest.mark.parametrize("files", ["compose.yaml", "compose.yaml:compose.debian.yaml"])
def test_the_configuration_is_valid(profile: str, files: str) -> None:
    """Without any variable set: every one has a default."""
    docker_engine.required()
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin", "DOCKER_CONFIG": str(plugin_folder())}
    environment |= {"COMPOSE_FILE": files, "COMPOSE_PROFILES": profile, "COMPOSE_DISABLE_ENV_FILE": "1"}
    done = subprocess.run(
        ["docker", "compose", "config", "--quiet"], cwd=FOLDER, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


# ---- episodes


async def test_the_demos_episodes_earn_the_same_through_the_gateway_as_in_this_process(project: Project) -> None:
    project.up(1)
    assert list(complaints(await playing.rounds(project, bundled()))) == []


@pytest.mark.parametrize("wire", playing.REMOTE)
@pytest.mark.parametrize("name", ["math_python", "code_tests"])
async def test_programs_run_in_containers_of_the_sandbox_service(project: Project, name: str, wire: str) -> None:
    assert await playing.few(project, name, wire, 2) == [1.0, 1.0]


@pytest.mark.peers
async def test_vf_eval_through_the_gateway(project: Project, tmp_path: Path) -> None:
    parts = parts_of(Battery, 4)
    run = VfEval(required(peer_python, "verifiers"), f"{project.url}/battery/gym", parts, tmp_path)
    run.headers["Authorization"] = f"Bearer {project.token}"
    rollouts = await asyncio.to_thread(run.run)
    assert [rollout.reward for rollout in rollouts] == [outcome.reward for outcome in await played(parts)]


# ---- replicas


async def test_three_replicas_share_the_sessions(three: Project) -> None:
    assert list(complaints(await playing.rounds(three, ["counter"]))) == []
    logs = three.compose("exec", "-T", "redis", "redis-cli", "info", "clients")
    assert int(logs.partition("connected_clients:")[2].split()[0]) >= 3


@pytest.mark.parametrize("wire", playing.REMOTE)
async def test_a_session_that_cannot_move_stays_with_its_replica(three: Project, wire: str) -> None:
    """`math_python` keeps no state that another replica could take up: only the gateway can find its session."""
    assert await playing.few(three, "math_python", wire, 3) == [1.0, 1.0, 1.0]


async def test_no_session_is_lost_with_a_replica_that_is_killed(three: Project) -> None:
    victim = three.containers("envs")[0]
    kill = ["kill", "--signal", "KILL", victim]
    kept = await playing.interrupted(three, "counter", playing.REMOTE, SESSIONS, lambda: three.docker(*kill))
    assert kept == await playing.undisturbed(three, "counter", playing.REMOTE, SESSIONS)


async def test_no_session_is_lost_while_redis_restarts(three: Project) -> None:
    restart = ["restart", "redis"]
    kept = await playing.interrupted(three, "counter", playing.REMOTE, SESSIONS, lambda: three.compose(*restart))
    assert kept == await playing.undisturbed(three, "counter", playing.REMOTE, SESSIONS)


async def test_no_session_is_lost_while_the_replicas_are_replaced(three: Project) -> None:
    before = three.containers("envs")
    kept = await playing.interrupted(three, "counter", playing.REMOTE, SESSIONS, lambda: three.run(["./roll.sh"], 300))
    assert kept == await playing.undisturbed(three, "counter", playing.REMOTE, SESSIONS)
    after = three.containers("envs")
    assert len(after) == len(before) and not set(before) & set(after)


def test_replicas_are_replaced_by_new_ones_alone(project: Project) -> None:
    """One that had stopped is not started again in a new one's place; new ones that do not start are taken away."""
    project.up(2)
    stopped, serving = project.containers("envs")
    project.docker("kill", stopped)
    with pytest.raises(AssertionError, match=r"no environment is called 'nonsense'(.|\n)*the old ones serve on"):
        project.run(["env", "GYMWIRE_ENVIRONMENTS=counter nonsense", "./roll.sh"], 300)
    assert project.compose("ps", "-aq", "envs").split() == [serving]
    project.run(["./roll.sh"], 300)
    (new,) = project.compose("ps", "-aq", "envs").split()
    assert new not in (stopped, serving)
    project.docker("kill", new)
    with pytest.raises(AssertionError, match="no replica runs"):
        project.run(["./roll.sh"], 300)


# ---- what is open, and what is not


async def test_the_gateway_asks_for_a_token_and_keeps_the_figures_for_another(project: Project) -> None:
    play, figures = project.token, project.secret("tokens/tokens").split()[3]
    expected = {
        ("/health", ""): 200,
        ("/environments", ""): 401,
        ("/environments", play): 200,
        ("/metrics", play): 403,
        ("/metrics", figures): 200,
        ("/stats", play): 404,
        ("/haproxy?stats", play): 404,
    }
    async with aiohttp.ClientSession() as http:
        for (path, token), status in expected.items():
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with http.get(project.url + path, headers=headers) as answer:
                assert (path, answer.status) == (path, status)


@pytest.mark.parametrize("service", RUNNING)
def test_every_service_is_held_to_what_it_needs(project: Project, service: str) -> None:
    about = project.inspect(service)
    host = about["HostConfig"]
    assert host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"] and not host["Privileged"]
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert host["Memory"] > 0 and host["PidsLimit"] > 0
    assert bool(host["PortBindings"]) == (service == "gateway")
    mounts = [mount["Source"] for mount in about["Mounts"]]
    assert any(source.endswith("docker.sock") for source in mounts) == (service == "sandbox")
    with pytest.raises(AssertionError, match="Read-only file system"):
        project.compose("exec", "-T", service, "sh", "-c", "echo x > /opt/x")


def test_the_one_port_is_the_loopbacks(project: Project) -> None:
    bindings = project.inspect("gateway")["HostConfig"]["PortBindings"]
    assert bindings == {"8200/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(project.port)}]}


@pytest.mark.parametrize(("service", "user"), [("envs", "10001"), ("sandbox", "0")])
def test_the_image_is_of_an_ordinary_user(project: Project, service: str, user: str) -> None:
    """The sandbox service opens the engine's socket as root, without any capability."""
    assert project.compose("exec", "-T", service, "id", "-u").strip() == user
    assert json.loads(project.docker("image", "inspect", project.variables["GYMWIRE_IMAGE"]))[0]["Config"]["User"] == (
        "10001:0"
    )
    status = project.compose("exec", "-T", service, "cat", "/proc/1/status")
    assert int(status.partition("CapEff:")[2].split()[0], 16) == 0


@pytest.mark.parametrize(
    ("service", "host", "port", "reached"),
    [
        ("envs", "redis", 6379, True),
        ("envs", "sandbox", 8300, True),
        ("envs", "192.0.2.1", 443, False),
        ("sandbox", "redis", 6379, False),
        ("sandbox", "envs", 8200, True),
        ("redis", "sandbox", 8300, False),
        ("gateway", "redis", 6379, False),
        ("gateway", "sandbox", 8300, False),
    ],
)
def test_who_reaches_whom(project: Project, service: str, host: str, port: int, reached: bool) -> None:
    """Environments reach nothing outside; Redis and the sandbox are there for those alone who need them."""
    script = f"timeout 2 bash -c 'exec 3<>/dev/tcp/{host}/{port}' 2>/dev/null && echo reached || echo not"
    assert project.compose("exec", "-T", service, "sh", "-c", script).strip() == ("reached" if reached else "not")


# ---- secrets


def test_no_secret_is_in_a_layer_an_environment_or_a_log(project: Project) -> None:
    words = {word for path in SECRETS for word in project.secret(path).split()}
    secrets = {word.encode() for word in words if len(word) > 40}
    assert len(secrets) == 4
    said = [
        project.compose("logs", "--no-color").encode(),
        project.docker("history", "--no-trunc", _image(project)).encode(),
    ]
    for service in (*RUNNING, "init", "program"):
        said.append(json.dumps(project.inspect(service)).encode())
    for service in RUNNING:
        said.append(project.compose("exec", "-T", service, "cat", "/proc/1/environ", "/proc/1/cmdline").encode())
    assert not [secret for secret in secrets for text in said if secret in text]
    assert not _found_in_image(project, secrets)


def test_the_secrets_are_files_that_only_their_service_reads(project: Project) -> None:
    for folder, name in (("tokens", "tokens"), ("signing", "key")):
        listed = project.compose("exec", "-T", "envs", "stat", "-c", "%a %u %n", f"/run/gymwire/{folder}/{name}")
        assert listed.split()[:2] == ["400", "10001"]
        with pytest.raises(AssertionError, match="Permission denied"):  # an empty folder that it may not even list
            project.compose("exec", "-T", "sandbox", "ls", f"/run/gymwire/{folder}")
    assert project.compose("exec", "-T", "redis", "redis-cli", "exists", "gymwire:key").strip() == "0"


def test_a_second_start_keeps_the_secrets(project: Project) -> None:
    before = [project.secret(path) for path in SECRETS]
    project.compose("run", "--rm", "--no-deps", "init")
    assert [project.secret(path) for path in SECRETS] == before


def test_the_image_holds_the_package_and_nothing_of_the_clone(project: Project) -> None:
    script = "cd /opt/gymwire/lib/python3*/site-packages/gymwire && ls && find / -xdev -name .env -o -path /source"
    found = project.compose("exec", "-T", "envs", "sh", "-c", f"{script} 2>/dev/null; true")
    assert found.split() == ["adapters", "servers", "trainer"]


def _image(project: Project) -> str:
    return project.variables["GYMWIRE_IMAGE"]


def _found_in_image(project: Project, secrets: set[bytes]) -> list[Any]:
    """Looks through all layers, as `docker save` writes them: plain tar files."""
    saving = subprocess.Popen(["docker", "save", _image(project)], stdout=subprocess.PIPE, env=project.environment)
    assert saving.stdout is not None
    found, before, size = [], b"", 0
    while block := saving.stdout.read(1 << 22):
        found += [secret for secret in secrets if secret in before + block]
        before, size = block[-100:], size + len(block)
    assert saving.wait() == 0 and size > 50_000_000
    saving.stdout.close()
    return found
