"""A whole `gym eval run --no-serve` of NeMo Gym against a served URL: its agents and its command, our model.

The configuration's `port` is a text that its client puts behind the host as it is: so it can name a path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from gymwire.servers.types import Json

from tests.peers.parts import Part
from tests.peers.processes import answers, finished, started, wait_until
from tests.peers.scripted_model import ScriptedModel, scripted_model
from tests.peers.venvs import peer_env
from tests.serving import free_port

LOOPBACK = "127.0.0.1"
#: The environment server (0.7.0) of each way to run; 0.4.0 has none, its command asks the agent itself.
ENVIRONMENT_SERVERS = {"legacy": "legacy_agent", "typed": "single_agent_turn", "old": ""}
CLASSES = {
    "simple_agent": "responses_api_agents.simple_agent.app:SimpleAgent",
    "legacy_agent": "environment_servers.legacy_agent.app:LegacyAgentEnvironmentServer",
    "single_agent_turn": "environment_servers.single_agent_turn.app:SingleAgentTurnEnvironmentServer",
}
RUN_TIMEOUT_S = 180


@dataclass(frozen=True)
class Result:
    """What a run wrote: a line a rollout, and the metrics by environment."""

    lines: Mapping[str, Sequence[Json]]
    metrics: Mapping[str, Json]
    failures: Sequence[Json]
    log: str


class GymEval:
    """One run, over all the environments that `parts` has."""

    def __init__(
        self, python: Path, form: str, url: str, parts: Sequence[Part], folder: Path, repeats: int = 2
    ) -> None:
        self.python, self.form, self.url, self.parts, self.folder = python, form, url, parts, folder
        self.repeats = repeats
        self.names = list(dict.fromkeys(part.environment.name for part in parts))
        self.ports = {name: free_port() for name, _ in self._servers()}

    def run(self) -> Result:
        servers = dict(self._servers())
        log = self.folder / "servers.log"
        with scripted_model(self.parts) as model:
            model.head_config = self._config(model)
            env = peer_env(self.python) | {"NEMO_GYM_CONFIG_DICT": json.dumps(model.head_config)}
            command = [self.python, Path(__file__).with_name("gym_servers.py")]
            command += [f"{name}={CLASSES[kind]}" for name, kind in servers.items()]
            with started(command, log, env, self.folder) as process:
                for name in servers:
                    address = f"http://{LOOPBACK}:{self.ports[name]}/"
                    wait_until(lambda address=address: answers(address), process, log)
                output = self._command(model)
        return self._result(output)

    def _servers(self) -> Iterator[tuple[str, str]]:
        """Names and kinds of the peer's own servers."""
        for name in self.names:
            yield _agent(name), "simple_agent"
            if kind := ENVIRONMENT_SERVERS[self.form]:
                yield _runner(name), kind

    def _config(self, model: ScriptedModel) -> Json:
        config: Json = {
            "head_server": {"host": LOOPBACK, "port": model.port},
            "default_host": LOOPBACK,
            "dry_run": False,
            "head_server_deps": [],
            "observability_enabled": False,
            "policy_model": {"responses_api_models": {"openai_model": _server(model.port)}},
        }
        port = urlsplit(self.url).port
        for name in self.names:
            resources = _server(f"{port}/{name}/gym") | {"domain": "agent"}
            config[name] = {"resources_servers": {name: resources}}
            config[_agent(name)] = {"responses_api_agents": {"simple_agent": self._agent_config(name)}}
            if kind := ENVIRONMENT_SERVERS[self.form]:
                config[_runner(name)] = {"environment_servers": {kind: self._runner_config(name)}}
        return config

    def _agent_config(self, name: str) -> Json:
        return _server(self.ports[_agent(name)]) | {
            "resources_server": {"type": "resources_servers", "name": name},
            "model_server": {"type": "responses_api_models", "name": "policy_model"},
            "max_steps": 12,
        }

    def _runner_config(self, name: str) -> Json:
        config = _server(self.ports[_runner(name)]) | {
            "agent_server": {"type": "responses_api_agents", "name": _agent(name)}
        }
        if self.form == "typed":
            config |= {
                "resources_server": {"type": "resources_servers", "name": name},
                "resources_tool_transports": ["direct_http"],
                "cleanup_timeout_seconds": 30,
                "default_episode_timeout_seconds": 60,
            }
        return config

    def _command(self, model: ScriptedModel) -> str:
        rows = self.folder / "rows.jsonl"
        rows.write_text("".join(json.dumps(self._line(index, part)) + "\n" for index, part in enumerate(self.parts)))
        command: list[str | Path] = [self.python.parent / "gym", "eval", "run", "--no-serve", "--input", rows]
        command += ["--output", self.folder / "out.jsonl", "--num-repeats", str(self.repeats), "--concurrency", "4"]
        command += [f"+head_server.host={LOOPBACK}", f"+head_server.port={model.port}"]
        if self.form == "typed":
            routes = ", ".join(f"{name}: {_runner(name)}" for name in self.names)
            command.append(f"+environment_server_routes={{{routes}}}")
        log = self.folder / "gym.log"
        status, output = finished(command, log, peer_env(self.python), self.folder, RUN_TIMEOUT_S)
        assert status == 0, output[-4000:]
        return output

    def _line(self, index: int, part: Part) -> Json:
        name = part.environment.name
        if self.form == "typed":
            return {"task_id": {"taskset": name, "task_id": f"task-{index}"}, "task_input": part.to_json()}
        return part.to_json() | {"agent_ref": {"type": "responses_api_agents", "name": _agent(name)}}

    def _result(self, log: str) -> Result:
        lines: dict[str, list[Json]] = {name: [] for name in self.names}
        for line in _read_lines(self.folder / "out.jsonl"):
            lines[self.parts[line["_ng_task_index"]].environment.name].append(line)
        metrics = {}
        for item in json.loads((self.folder / "out_aggregate_metrics.json").read_text()):
            agent = item["agent_ref"]["name"] if "agent_ref" in item else item["_ng_environment_server"]
            metrics[agent.removesuffix("_agent").removesuffix("_runner")] = item
        return Result(lines, metrics, _read_lines(self.folder / "out_failures.jsonl"), log)


def _agent(name: str) -> str:
    return f"{name}_agent"


def _runner(name: str) -> str:
    return f"{name}_runner"


def _server(port: int | str) -> Json:
    return {"entrypoint": "app.py", "host": LOOPBACK, "port": port}


def _read_lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
