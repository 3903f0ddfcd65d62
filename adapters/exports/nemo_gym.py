"""NeMo Gym: a folder with a resources server that forwards to the served environment, its config, and rows.

Its launcher takes a resources server at an external URL only so.
"""

from __future__ import annotations

import shlex

from ...servers.types import Json
from ...servers.wording import counted
from .facts import Facts
from .folder import filled
from .names import module
from .readme import Setting, readme, serve_command
from .target import Export, Options, Target
from .text import quoted, rows_text

VERSIONS = ("0.7.0", "0.4.0")
CONCURRENCY = 64
#: What 0.7.0 runs between its command and its agent; 0.4.0 asks the agent itself.
ENVIRONMENT_SERVER = """\
{server}_environment_server:
  environment_servers:
    legacy_agent:
      entrypoint: app.py
      agent_server:
        type: responses_api_agents
        name: {server}_simple_agent
"""
START = """\
{serve}
{roots}
gym env start "+config_paths=[{config},responses_api_models/openai_model/configs/openai_model.yaml]" \\
    +policy_base_url={base_url} "+policy_api_key=${key}" +policy_model_name={model}
gym eval run --no-serve --input {folder}/resources_servers/{server}/data/rows.jsonl \\
    --output results.jsonl --concurrency {concurrency}"""


def agent_name(facts: Facts) -> str:
    return f"{module(facts)}_simple_agent"


def config_path(facts: Facts) -> str:
    server = module(facts)
    return f"resources_servers/{server}/configs/{server}.yaml"


def rows_with_agent(facts: Facts) -> list[Json]:
    """The rows, each with the agent that plays it."""
    return [row | {"agent_ref": {"type": "responses_api_agents", "name": agent_name(facts)}} for row in facts.rows]


def export(facts: Facts, options: Options) -> Export:
    files = shim(facts, options.version)
    server = module(facts)
    new = options.version == VERSIONS[0]
    there = options.folder
    roots = f"export NEMO_GYM_EXTRA_ROOTS={there}" if new else f"cd {there}   # {options.version} looks here"
    commands = START.format(
        serve=serve_command(facts),
        roots=roots,
        config=config_path(facts),
        base_url=shlex.quote(options.base_url),
        key=options.api_key_var,
        model=shlex.quote(options.model),
        folder=options.folder,
        server=server,
        concurrency=concurrency(facts),
    )
    files["README.md"] = readme(
        f"{facts.name} for NeMo Gym",
        facts,
        versions=f"nemo-gym {options.version}",
        commands=commands,
        settings=settings(facts),
        notes=(
            "The launcher makes a virtual environment for every server; with `+uv_venv_dir=DIR "
            "+skip_venv_if_present=true` it takes those that are there (DIR/TYPE/NAME/.venv).",
            "NeMo Gym's agents never close a session of the legacy form: places of failed rollouts come back by the "
            "server's idle limit.",
        ),
    )
    return Export(files)


def shim(facts: Facts, version: str) -> dict[str, str]:
    """The folder `resources_servers/<name>`, rows included."""
    server = module(facts)
    between = ENVIRONMENT_SERVER.format(server=server) if version == VERSIONS[0] else ""
    values = {
        "name": facts.name,
        "server": server,
        "description": quoted(f"{facts.name}, forwarded to a gymwire server"),
        "url": facts.url("nemo-gym"),
        "max_turns": facts.max_turns,
        "environment_server": between,
    }
    at = f"resources_servers/{server}"
    return {
        f"{at}/app.py": filled("nemo_gym/app.py.in", values),
        f"{at}/requirements.txt": f"nemo-gym=={version}\naiohttp>=3.11\n",
        f"{at}/configs/{server}.yaml": filled("nemo_gym/config.yaml", values).rstrip() + "\n",
        f"{at}/data/rows.jsonl": rows_text(rows_with_agent(facts)),
    }


def concurrency(facts: Facts) -> int:
    return min(CONCURRENCY, facts.capacity)


def settings(facts: Facts) -> list[Setting]:
    return [
        Setting("url (config)", facts.url("nemo-gym"), "the folder does not start"),
        Setting("max_steps", facts.max_turns, "no limit: a policy that calls for ever holds its session"),
        Setting(
            "agent_ref of each row",
            agent_name(facts),
            "no agent is found for the row, and NeMo RL stops with a KeyError",
        ),
        Setting(
            "X-Gymwire-Masked",
            "flag (sent by app.py)",
            "a server of `--masked-as-error` answers 503, and the rollout is repeated instead of masked",
        ),
        Setting("GYMWIRE_TOKEN", "(environment)", "401 at the seed, where the server asks for a token"),
        Setting(
            "--concurrency",
            concurrency(facts),
            f"all rows at once: beyond {counted(facts.capacity, 'session')} a seed waits "
            f"{float(facts.limits['queue_timeout_s']):g} s and fails",
        ),
    ]


TARGET = Target("nemo-gym", VERSIONS, export)
