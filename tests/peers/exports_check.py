"""Run in verifiers' environment: what an export wrote, read by verifiers' own models and its loader.

    python exports_check.py FOLDER ...

A folder may hold `rl.toml` (prime-rl: the `env` of each source, and the renderer), `eval.toml` and rows. Prints a line
of JSON for each: the resolved tasks, and what was taken from the configs. A model that refuses raises.
"""

# pyright: reportMissingImports=false

import json
import sys
import tomllib
from pathlib import Path

from pydantic import TypeAdapter
from renderers import RendererConfig
from verifiers.v1.configs.cli.eval import EvalConfig
from verifiers.v1.utils.loaders import load_taskset, resolve_env_config


def shown(env) -> dict:
    """What a config became, and the tasks that its taskset loads."""
    tasks = list(load_taskset(env.taskset).load())
    task = env.taskset.task
    return {
        "rows": [item.data.row for item in tasks],
        "prompts": [[message.role for message in item.data.prompt] for item in tasks],
        "url": task.resources_url,
        "headers": task.headers,
        "request_timeout": task.request_timeout,
        "max_turns": env.agent.max_turns,
        "timeouts": [env.agent.timeout.setup, env.agent.timeout.rollout, env.agent.timeout.scoring],
        "harness": env.agent.harness.id,
        "runtime": env.agent.runtime.type,
    }


def checked(folder: Path) -> dict:
    found = {}
    if (folder / "rl.toml").exists():
        orchestrator = tomllib.loads((folder / "rl.toml").read_text())["orchestrator"]
        (source,) = orchestrator["train"]["source"]
        found["rl"] = shown(resolve_env_config(source["env"]))
        found["renderer"] = TypeAdapter(RendererConfig).validate_python(orchestrator["renderer"]).name
    if (folder / "eval.toml").exists():
        config = EvalConfig.model_validate(tomllib.loads((folder / "eval.toml").read_text()))
        found["eval"] = shown(config.env) | {"model": config.model, "max_concurrent": config.max_concurrent}
    return found


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        sys.path.insert(0, folder)  # an exported package beside its eval.toml
        print(json.dumps(checked(Path(folder))), flush=True)
