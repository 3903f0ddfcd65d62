"""NeMo Gym's own launcher on exported folders: `gym env start` with the virtual environment that is there, then
`gym eval run --no-serve`; the model is the scripted one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from gymwire.servers.types import Json

from tests.peers.parts import Part
from tests.peers.processes import finished, started, wait_until
from tests.peers.scripted_model import scripted_model
from tests.peers.venvs import peer_env
from tests.serving import free_port

RUN_TIMEOUT_S = 180
START_TIMEOUT_S = 150
#: What the launcher starts beside the folders' own servers.
SERVERS = ("responses_api_agents/simple_agent", "responses_api_models/openai_model", "environment_servers/legacy_agent")
MODEL_CONFIG = "responses_api_models/openai_model/configs/openai_model.yaml"


def launched(python: Path, at: Path, roots: Sequence[Path], parts: Sequence[Part]) -> dict[str, list[Json]]:
    """The rollouts by environment, in the order of the rows. `parts` are the rows of all roots, in their order."""
    configs = [
        str(path.relative_to(root)) for root in roots for path in root.glob("resources_servers/*/configs/*.yaml")
    ]
    made_venvs(at / "venvs", [*SERVERS, *(config.split("/configs/")[0] for config in configs)], python)
    rows = [row for root in roots for path in root.glob("resources_servers/*/data/*.jsonl") for row in lines(path)]
    (at / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    env = peer_env(python) | {"NEMO_GYM_EXTRA_ROOTS": ":".join(map(str, roots))}
    head = ["+head_server.host=127.0.0.1", f"+head_server.port={free_port()}"]
    with scripted_model(parts) as model:
        start = [python.parent / "gym", "env", "start", f"+config_paths=[{','.join([*configs, MODEL_CONFIG])}]"]
        start += [f"+policy_base_url={model.url}/v1", "+policy_api_key=any", "+policy_model_name=scripted"]
        start += [f"+uv_venv_dir={at / 'venvs'}", "+skip_venv_if_present=true", "+default_host=127.0.0.1", *head]
        log = at / "start.log"
        with started(start, log, env, at) as process:
            wait_until(lambda: "servers ready" in log.read_text(errors="replace"), process, log, START_TIMEOUT_S)
            run = [python.parent / "gym", "eval", "run", "--no-serve", "--input", at / "rows.jsonl"]
            run += ["--output", at / "results.jsonl", "--concurrency", "4", *head]
            status, output = finished(run, at / "eval.log", env, at, RUN_TIMEOUT_S)
            assert status == 0, output[-4000:]
    return by_environment(lines(at / "results.jsonl"), parts)


def made_venvs(folder: Path, servers: Sequence[str], python: Path) -> None:
    """The launcher looks for each server's virtual environment under its type and name: one stands for all."""
    for server in servers:
        (folder / server).mkdir(parents=True)
        (folder / server / ".venv").symlink_to(python.parent.parent)


def by_environment(results: Sequence[Json], parts: Sequence[Part]) -> dict[str, list[Json]]:
    made: dict[str, list[Json]] = {}
    for line in sorted(results, key=lambda line: line["_ng_task_index"]):
        made.setdefault(parts[line["_ng_task_index"]].environment.name, []).append(line)
    return made


def lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()]
