"""An installable verifiers environment package, and an `eval.toml` for it."""

from __future__ import annotations

from .facts import Facts
from .folder import filled
from .names import distribution, module, prefix
from .readme import Setting, readme
from .target import Export, Options, Target
from .text import quoted, rows_text

VERSIONS = ("0.4.0",)
#: Episodes at once that one evaluation is given, of a server with room for more.
MAX_INFLIGHT = 128
COMMANDS = """\
pip install .                       # verifiers {version} and this package; no gymwire
{export:<35} # of the model's endpoint; GYMWIRE_TOKEN too, if the server asks for one
vf-eval @ eval.toml -n 8 --no-push  # results in outputs/*/traces.jsonl; needs `uv` on PATH"""


def inflight(facts: Facts) -> int:
    return min(MAX_INFLIGHT, facts.capacity)


def export(facts: Facts, options: Options) -> Export:
    package = module(facts)
    values = {
        "name": facts.name,
        "module": package,
        "distribution": distribution(facts),
        "prefix": prefix(facts),
        "url": facts.url("nemo-gym"),
        "request_timeout": facts.request_timeout_s,
        "max_turns": facts.max_turns,
        "capacity": facts.capacity,
        "inflight": inflight(facts),
        "verifiers": options.version,
        "model": quoted(options.model),
        "base_url": quoted(options.base_url),
        "api_key_var": quoted(options.api_key_var),
    }
    files = {
        "pyproject.toml": filled("verifiers/pyproject.toml.in", values),
        "eval.toml": filled("verifiers/eval.toml", values),
        f"{package}/__init__.py": filled("verifiers/init.py.in", values),
        f"{package}/taskset.py": filled("verifiers/taskset.py.in", values),
        f"{package}/rows.jsonl": rows_text(facts.rows),
    }
    files["README.md"] = readme(
        f"{facts.name} for verifiers",
        facts,
        versions=f"verifiers {options.version}",
        commands=COMMANDS.format(version=options.version, export=f"export {options.api_key_var}=..."),
        settings=_settings(facts),
        notes=(
            "vf-eval ends with 0 whatever became of the rollouts: read `ok` and `errors` in traces.jsonl.",
            "An error of the rollout is what a masked session becomes; it has no reward and is in no mean.",
        ),
    )
    return Export(files)


def _settings(facts: Facts) -> list[Setting]:
    return [
        Setting("env.taskset.task.resources_url", facts.url("nemo-gym"), "the package's own default, the same URL"),
        Setting(
            "env.taskset.task.request_timeout",
            facts.request_timeout_s,
            f"60 s: a seed that waits {float(facts.limits['queue_timeout_s']):g} s for a place, or a call behind "
            "another, may be given up while the server still carries it out",
        ),
        Setting("env.agent.max_turns", facts.max_turns, "no limit: a policy that calls for ever holds its session"),
        Setting("max_concurrent", inflight(facts), f"128; more than {facts.capacity} would wait for places and fail"),
        Setting("env.agent.harness.id", "null", "`bash`: an agent with a shell of its own beside the tools"),
        Setting("env.agent.runtime.type", "subprocess", "Prime's hosted sandboxes, which need an account"),
        Setting("GYMWIRE_TOKEN", "(environment)", "401 at the seed, where the server asks for a token"),
        Setting(
            "X-Gymwire-Masked", "error", "verify answers 200 with a reward of 0.0, which counts; the package sends it"
        ),
    ]


TARGET = Target("verifiers", VERSIONS, export)
