"""What `gymwire export` wrote, used by those it is for: verifiers, NeMo Gym's launcher, OpenEnv.

The long runs are made once, two at a time: most of each is the start of the peer's own processes.
"""

from __future__ import annotations

import asyncio
import json
import time
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import pytest
from gymwire.adapters.exports.models import FAMILIES
from gymwire.servers.environments.battery import Battery
from gymwire.servers.environments.ledger import Ledger
from gymwire.servers.rows import write_rows
from gymwire.servers.types import Json

from tests.adapters.exports.command import exported, rows_of
from tests.peers.broken import BrokenLedger
from tests.peers.gym_launch import launched
from tests.peers.parts import parts_of, played, record
from tests.peers.processes import answers, finished, started, wait_until
from tests.peers.scripted_model import scripted_model
from tests.peers.venvs import peer_env, peer_python, required
from tests.peers.vf_eval import Rollout, evaluated
from tests.serving import Running, free_port, serving

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

BROKEN = parts_of(BrokenLedger, 4, split="eval")
GYM = [*parts_of(Battery, 2), *parts_of(Ledger, 2)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that nobody else uses: what is live on it is ours."""
    log = tmp_path_factory.mktemp("exports") / "server.log"
    odd = ("tests.peers.broken:BrokenLedger", "tests.peers.broken:OddlyNamed")
    with serving(log, "battery", "ledger", *odd) as running:
        yield running


# ---- vf-eval


class Evaluation:
    """An export, run by vf-eval as it was written; with what the server held afterwards."""

    def __init__(self, rollouts: list[Rollout], sessions: dict[str, float]) -> None:
        self.rollouts, self.sessions = rollouts, sessions


def of_package(python: Path, served: Running, folder: Path) -> Evaluation:
    """The verifiers package, installed. The model knows all rows but the last: that rollout breaks on the model."""
    with scripted_model(BROKEN) as model:
        out = exported(
            "verifiers",
            f"{served.url}/broken_ledger",
            folder / "out",
            "--split",
            "eval",
            "--count",
            "5",
            *asked(model.url),
        )
        install = [python, "-m", "pip", "install", "-q", "--no-deps", "--target", folder / "site", out]
        status, output = finished(install, folder / "pip.log", peer_env(python), folder, 120)
        assert status == 0, output
        (folder / "run").mkdir()
        (out / "eval.toml").rename(folder / "run" / "eval.toml")
        env = {"PYTHONPATH": str(folder / "site")}
        rollouts = evaluated(python, folder / "run", 5, folder / "vf.log", env)
    return Evaluation(rollouts, sessions_of(served, "broken_ledger"))


def of_config(python: Path, served: Running, folder: Path) -> Evaluation:
    """prime-rl's eval.toml with verifiers' own taskset, on whole rows."""
    parts = [*parts_of(Ledger, 2), *parts_of(Ledger, 2, split="eval")]
    write_rows(folder / "mine.jsonl", [json.dumps(part.to_json()).encode() + b"\n" for part in parts])
    with scripted_model(parts) as model:
        rows = ("--rows", str(folder / "mine.jsonl"))
        out = exported("prime-rl", f"{served.url}/ledger", folder / "out", *rows, *asked(model.url))
        rollouts = evaluated(python, out, 4, folder / "vf.log")
    return Evaluation(rollouts, sessions_of(served, "ledger"))


def asked(url: str) -> tuple[str, ...]:
    return ("--model", "scripted", "--base-url", f"{url}/v1", "--api-key-var", "SCRIPTED_KEY")


def sessions_of(served: Running, name: str) -> dict[str, float]:
    """The server's sessions of an environment by state, and how many of its places are taken."""
    with urlopen(f"{served.url}/metrics") as answer:
        lines = [line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#")]
    metrics = {key: float(value) for key, value in lines}
    start = f'gymwire_sessions{{environment="{name}",state="'
    found = {key[len(start) : -2]: value for key, value in metrics.items() if key.startswith(start) and value}
    return found | {"taken": metrics["gymwire_slots"] - metrics["gymwire_slots_free"]}


Evaluations = Mapping[str, "Future[Evaluation]"]


@pytest.fixture(scope="module")
def evaluations(served: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluations]:
    python = required(peer_python, "verifiers")
    with ThreadPoolExecutor(2) as pool:
        runs = {"package": of_package, "config": of_config}
        yield {name: pool.submit(run, python, served, tmp_path_factory.mktemp(name)) for name, run in runs.items()}


async def test_the_package_earns_what_the_same_policies_earn_in_process(evaluations: Evaluations) -> None:
    rollouts = evaluations["package"].result().rollouts
    healthy = await played(BROKEN[::2])
    assert [rollout.reward for rollout in rollouts[:4:2]] == [outcome.reward for outcome in healthy]
    assert all(rollout.ok for rollout in rollouts[:4:2])


def test_a_masked_session_of_the_package_is_an_error_and_not_a_zero(evaluations: Evaluations) -> None:
    for rollout in evaluations["package"].result().rollouts[1:4:2]:
        assert (rollout.ok, rollout.reward) == (False, None)
        assert [error["type"] for error in rollout.errors] == ["TaskError"]
        assert "503" in rollout.errors[0]["message"] and "/verify" in rollout.errors[0]["message"]


def test_the_package_closes_every_session_also_where_the_rollout_broke(evaluations: Evaluations) -> None:
    done = evaluations["package"].result()
    assert not done.rollouts[4].ok and done.rollouts[4].errors[0]["type"] != "TaskError"
    assert done.sessions.keys() == {"taken"}


async def test_the_config_earns_what_the_same_policies_earn_in_process(evaluations: Evaluations) -> None:
    done = evaluations["config"].result()
    own = await played([*parts_of(Ledger, 2), *parts_of(Ledger, 2, split="eval")])
    assert [rollout.reward for rollout in done.rollouts] == [outcome.reward for outcome in own]
    assert done.sessions.keys() <= {"taken", "verified"}


def test_no_place_of_the_server_stays_taken(evaluations: Evaluations, served: Running) -> None:
    for run in evaluations.values():
        run.result()
    assert sessions_of(served, "ledger")["taken"] == 0


# ---- verifiers' own models and loader


@pytest.fixture(scope="module")
def folders(served: Running, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    at = tmp_path_factory.mktemp("folders")
    few = ("--count", "3")
    made = {
        version: exported("prime-rl", f"{served.url}/ledger", at / version, *few, "--target-version", version)
        for version in ("0.10.0", "0.9")
    }
    return made | {"package": exported("verifiers", f"{served.url}/ledger", at / "package", *few)}


@pytest.mark.parametrize("peer", ["verifiers", "verifiers_0_3"])
def test_its_models_take_the_configs_and_its_loader_the_rows(peer: str, folders, served: Running, tmp_path) -> None:
    python = required(peer_python, peer)
    command = [python, Path(__file__).with_name("exports_check.py"), *folders.values()]
    status, output = finished(command, tmp_path / "log", peer_env(python), tmp_path, 120)
    assert status == 0, output[-4000:]
    checked = dict(zip(folders, (json.loads(line) for line in output.splitlines() if line[:1] == "{"), strict=True))
    rows = rows_of(folders["0.10.0"] / "rows.jsonl")
    for found in [checked["0.10.0"]["rl"], checked["0.9"]["rl"], *(item["eval"] for item in checked.values())]:
        assert found["rows"] == rows and found["prompts"] == [["user"]] * 3
        assert found["url"] == f"{served.url}/ledger/gym"
        assert (found["harness"], found["runtime"], found["max_turns"]) == ("null", "subprocess", Ledger.max_turns)
        assert found["request_timeout"] > 45
    assert checked["0.10.0"]["rl"]["headers"] == {"X-Gymwire-Masked": "error"}
    assert checked["0.10.0"]["eval"]["headers"] == {"X-Gymwire-Masked": "error"}
    assert checked["0.10.0"]["renderer"] == "qwen3"


def test_a_package_is_found_whatever_its_environment_is_called(served: Running, tmp_path: Path) -> None:
    python = required(peer_python, "verifiers")
    out = exported("verifiers", f"{served.url}/NeMo-Gym.", tmp_path / "out", "--count", "2")
    command = [python, Path(__file__).with_name("exports_check.py"), out]
    status, output = finished(command, tmp_path / "log", peer_env(python), tmp_path, 120)
    assert status == 0, output[-4000:]
    found = json.loads(next(line for line in output.splitlines() if line[:1] == "{"))
    assert found["eval"]["rows"] == rows_of(out / "gymwire_nemo_gym" / "rows.jsonl")


def test_every_renderer_that_may_be_written_is_one(tmp_path: Path) -> None:
    python = required(peer_python, "verifiers")
    names = sorted({family.renderer for family in FAMILIES} | {"auto"})
    code = "import sys; from pydantic import TypeAdapter as T; from renderers import RendererConfig as R\n"
    code += "[T(R).validate_python({'name': name}) for name in sys.argv[1:]]"
    status, output = finished([python, "-c", code, *names], tmp_path / "log", peer_env(python), tmp_path, 60)
    assert status == 0, output


# ---- NeMo Gym's launcher


@pytest.fixture(scope="module")
def gym(served: Running, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Json]]:
    """What `gym env start` and `gym eval run` make of both exported folders, by environment, in the rows' order."""
    python = required(peer_python, "nemo_gym_0_7")
    at = tmp_path_factory.mktemp("gym")
    for name in ("battery", "ledger"):
        exported("nemo-gym", f"{served.url}/{name}", at / "roots" / name, "--count", "2")
    return launched(python, at, [at / "roots" / name for name in ("battery", "ledger")], GYM)


@pytest.mark.parametrize("name", ["battery", "ledger"])
async def test_its_launcher_plays_the_folder_for_the_rewards_of_the_same_policies(name: str, gym) -> None:
    own = await played([part for part in GYM if part.environment.name == name])
    assert [line["reward"] for line in gym[name]] == [outcome.reward for outcome in own]
    assert not any(line.get("mask_sample") for line in gym[name])


# ---- OpenEnv


PLAY = """
import json
from gymwire_ledger import LedgerEnv, call, verify
with LedgerEnv(base_url={url!r}).sync() as env:
    first = env.reset(split="eval", index=0)
    done = [env.step(call(name, **arguments)) for name, arguments in {calls!r}]
    verdict = env.step(verify({answer!r}))
print(json.dumps([first.observation["prompt"], [step.reward for step in done], verdict.reward, verdict.done]))
"""


@pytest.fixture(scope="module")
def openenv(served: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, Path]]:
    """OpenEnv's interpreter, the URL of an exported folder's own server, and the folder that folders are in."""
    python, at = required(peer_python, "openenv"), tmp_path_factory.mktemp("openenv")
    for name in ("battery", "ledger"):  # a package is its own root
        exported("openenv", f"{served.url}/{name}", at / f"gymwire_{name}")
    port, log = free_port(), at / "app.log"
    command = [python, "-m", "uvicorn", "server.app:app", "--port", str(port)]
    with started(command, log, peer_env(python), at / "gymwire_ledger") as process:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/health"), process, log)
        yield python, f"http://127.0.0.1:{port}", at
    assert "Traceback" not in log.read_text()


def test_openenv_validates_the_folders_and_their_server(openenv: tuple[Path, str, Path], tmp_path: Path) -> None:
    python, url, at = openenv
    script = Path(__file__).with_name("openenv_validate.py")
    command = [python, script, at / "gymwire_battery", at / "gymwire_ledger", url]
    status, output = finished(command, tmp_path / "log", peer_env(python), tmp_path, 120)
    assert status == 0, output
    *folders, running = [json.loads(line) for line in output.splitlines() if line[:1] == "{"]
    assert [(found["status"], found["report"]["verdict"]) for found in folders] == [(0, "pass")] * 2
    assert (running["status"], running["report"]["passed"]) == (0, True)


def test_its_client_plays_through_the_folders_server(served: Running, openenv: tuple[Path, str, Path]) -> None:
    python, url, at = openenv
    (part,) = parts_of(Ledger, 1, split="eval")
    own = asyncio.run(record(part))
    calls, answer = [(call.name, call.arguments) for call in own.calls], own.messages[-1]["content"]
    (at / "play.py").write_text(PLAY.format(url=url, calls=calls, answer=answer))
    status, output = finished([python, "play.py"], at / "play.log", peer_env(python), at, 60)
    assert status == 0, output
    prompt, rewards, reward, done = json.loads(output.splitlines()[-1])
    assert prompt == list(part.row.prompt)
    # The last call ends the episode and carries the reward.
    assert rewards == [0.0] * (len(calls) - 1) + [own.outcome.reward]
    assert (reward, done) == (own.outcome.reward, True)
    wait_until_free(served)


def wait_until_free(served: Running) -> None:
    """The socket's end closes its session."""
    deadline = time.monotonic() + 10
    while sessions_of(served, "ledger")["taken"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert sessions_of(served, "ledger")["taken"] == 0


def test_the_default_image_holds_what_the_server_imports(served: Running, tmp_path: Path) -> None:
    out = exported("openenv", f"{served.url}/ledger", tmp_path / "out")
    wanted = {"fastapi", "httpx", "uvicorn", "websockets"}
    text = (out / "server" / "app.py").read_text()
    assert all(f"import {name}" in text or f"from {name}" in text for name in wanted)
    docker = (out / "server" / "Dockerfile").read_text()
    project = tomllib.loads((out / "pyproject.toml").read_text())["project"]
    assert all(f'"{name}' in docker for name in wanted)
    assert all(any(item.startswith(name) for item in project["dependencies"]) for name in (*wanted, "openenv=="))
