"""OpenEnv: a folder with openenv.yaml, a server that forwards to the served environment, its Dockerfile, a client."""

from __future__ import annotations

from ...servers.auth import LOOPBACK
from .facts import Facts
from .folder import filled
from .names import distribution, module, prefix
from .readme import Setting, readme
from .target import Export, Options, Target
from .text import literal, quoted

VERSIONS = ("0.10.0",)
#: OpenEnv's own policy refuses manifests that declare a longer episode.
MAX_EPISODE_S = 300.0
COMMANDS = """\
openenv validate . --level static --skip-build
pip install .                                     # the client and the server
uvicorn server.app:app --port 8000                # or as a container, which must reach the gymwire server:
docker build -t {distribution} -f server/Dockerfile .
docker run {network}{token} {distribution}
openenv validate --url http://127.0.0.1:8000"""


def export(facts: Facts, options: Options) -> Export:
    values = {
        "name": facts.name,
        "package": module(facts),
        "distribution": distribution(facts),
        "prefix": prefix(facts),
        "url": facts.url("openenv"),
        "openenv": options.version,
        "split": quoted(next(iter(facts.info.splits), "")),
        "episode_timeout": min(MAX_EPISODE_S, float(facts.limits["lifetime_s"])),
        "tools": literal([tool.name for tool in facts.info.tools]),
        "tasks": literal(dict(facts.info.splits)),
    }
    at = {
        "openenv.yaml": "openenv.yaml",
        "pyproject.toml": "pyproject.toml.in",
        "__init__.py": "init.py.in",
        "client.py": "client.py.in",
        "server/app.py": "app.py.in",
        "server/Dockerfile": "Dockerfile",
    }
    files = {path: filled(f"openenv/{template}", values) for path, template in at.items()}
    files["server/__init__.py"] = ""
    commands = COMMANDS.format(
        distribution=distribution(facts),
        # A server that listens on loopback is not reached from another network, nor by another name.
        network="--network host" if facts.root.host in LOOPBACK else "-p 8000:8000",
        token=" -e GYMWIRE_TOKEN" if facts.has_token else "",
    )
    files["README.md"] = readme(
        f"{facts.name} for OpenEnv",
        facts,
        versions=f"openenv {options.version}",
        commands=commands,
        settings=_settings(facts),
        notes=(
            "The score is asked for by a control call that no tool list shows (`verify` in client.py): healthy steps "
            "before it carry 0.0, a session that the server's side broke ends with `done`, `reward: null` and its "
            "`failure_kind` in the metadata. Take None for no reward, never for 0.",
            "`openenv validate` beyond `--level static` builds the image and runs it without the gymwire server's "
            "network: its runtime checks do not pass there. `openenv validate --url` checks the running one.",
            "OpenEnv's clients connect again by themselves where a socket breaks. The new one has no episode, and "
            "says so: reset.",
        ),
    )
    return Export(files)


def _settings(facts: Facts) -> list[Setting]:
    return [
        Setting("GYMWIRE_URL", facts.url("openenv"), "this default; inside a container 127.0.0.1 is the container"),
        Setting("GYMWIRE_TOKEN", "(environment)", "401, where the server asks for a token"),
        Setting("validation.reward.range", "[0.0, 1.0]", "what OpenEnv assumes too; correct it for other scores"),
        Setting(
            "validation.resources.episode_timeout_s",
            min(MAX_EPISODE_S, float(facts.limits["lifetime_s"])),
            f"the manifest is refused; the server itself ends sessions after {float(facts.limits['lifetime_s']):g} s",
        ),
        Setting(
            "heartbeat of the forwarder's socket",
            "20 s",
            "a connection that breaks without a word would hold its place until the server's own pings miss it",
        ),
    ]


TARGET = Target("openenv", VERSIONS, export, needs_rows=False)
