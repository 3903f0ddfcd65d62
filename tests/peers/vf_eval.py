"""A whole `vf-eval @ eval.toml` of verifiers against a served URL, with the scripted model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gymwire.servers.types import Json

from tests.peers.parts import Part
from tests.peers.processes import finished
from tests.peers.scripted_model import ScriptedModel, scripted_model
from tests.peers.venvs import peer_env

RUN_TIMEOUT_S = 180
CONFIG = """
model = "scripted"

[env.taskset]
id = "nemo-gym"
dataset = "rows.jsonl"

[env.taskset.task]
resources_url = "{url}"
headers = {{{headers}}}
request_timeout = 60

[env.agent]
max_turns = 12

[env.agent.harness]
id = "null"

[env.agent.runtime]
type = "subprocess"

[client]
base_url = "{model}/v1"
api_key_var = "SCRIPTED_KEY"
"""


@dataclass(frozen=True)
class Rollout:
    """One line of the results: the reward is None where the rollout is an error."""

    reward: float | None
    ok: bool
    errors: Sequence[Json]
    info: Json
    metrics: Json
    tool_texts: Sequence[str]


class VfEval:
    """One run over rows of one environment; rollouts in the order of the rows.

    `door`: ask for the MCP door, with rows that name no tools, so that only the door can offer any.
    """

    def __init__(
        self, python: Path, url: str, parts: Sequence[Part], folder: Path, *, errors: bool = False, door: bool = False
    ) -> None:
        self.python, self.url, self.parts, self.folder, self.door = python, url, parts, folder, door
        self.headers = {"X-Gymwire-Masked": "error"} if errors else {}
        if door:
            self.headers["X-Gymwire-Tools"] = "mcp"

    def run(self) -> list[Rollout]:
        lines = [json.dumps(self._row(part)) + "\n" for part in self.parts]
        (self.folder / "rows.jsonl").write_text("".join(lines))
        with scripted_model(self.parts) as model:
            (self.folder / "eval.toml").write_text(self._config(model))
            return evaluated(self.python, self.folder, len(self.parts), self.folder / "vf.log")

    def _row(self, part: Part) -> Json:
        row = part.to_json()
        if self.door:
            del row["responses_create_params"]["tools"]
        return row

    def _config(self, model: ScriptedModel) -> str:
        headers = ", ".join(f'"{name}" = "{value}"' for name, value in self.headers.items())
        return CONFIG.format(url=self.url, headers=headers, model=model.url)


def evaluated(python: Path, folder: Path, count: int, log: Path, env: Mapping[str, str] | None = None) -> list[Rollout]:
    """`vf-eval @ eval.toml` of a folder over its first `count` rows; rollouts in the order of the rows."""
    command = [python.parent / "vf-eval", "@", "eval.toml", "-n", str(count), "--no-push", "--rich", "None"]
    own = peer_env(python) | {"SCRIPTED_KEY": "any"} | (env or {})
    status, output = finished(command, log, own, folder, RUN_TIMEOUT_S)
    assert status == 0, output[-4000:]
    files = list(folder.glob("outputs/*/traces.jsonl"))
    assert len(files) == 1, output[-4000:]
    lines = [json.loads(line) for line in files[0].read_text().splitlines()]
    assert len(lines) == count, output[-4000:]
    return [_rollout(line) for line in sorted(lines, key=lambda line: line["task"]["data"]["idx"])]


def _rollout(line: Json) -> Rollout:
    (trace,) = line["traces"]
    scored = trace["rewards"].get("nemo_gym")
    messages = [node["message"] for node in trace["nodes"]]
    return Rollout(
        reward=None if scored is None else scored["score"],
        ok=line["ok"],
        errors=trace["errors"],
        info=trace["info"].get("nemo_gym", {}),
        metrics=trace["metrics"],
        tool_texts=[message["content"] for message in messages if message["role"] == "tool"],
    )
