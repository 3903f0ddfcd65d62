"""prime-rl: a TOML for its `rl` command, an `eval.toml` for vf-eval, and the rows.

It uses verifiers' own NeMo Gym taskset, which never closes a session: places of failed rollouts come back by the
server's idle limit, and `max_inflight` stays below the capacity by an eighth for them.
"""

from __future__ import annotations

from ...servers.wording import counted
from .facts import Facts
from .folder import filled
from .models import UNKNOWN, family_of
from .readme import Setting, readme, serve_command
from .target import Export, Options, Target
from .text import quoted, rows_text

#: 0.10.0 has `group_size` in [orchestrator.train] (a source may override it); before, each source has its own.
VERSIONS = ("0.10.0", "0.9")
GROUP_SIZE, BATCH_SIZE, MAX_INFLIGHT, EVAL_INFLIGHT = 8, 128, 1024, 128
SEQ_LEN, COMPLETION_TOKENS = 8192, 1024
#: prime-rl's own ports: the router, its engines, a disaggregated deployment's decoders.
ROUTER_PORT, OTHER_ROUTER_PORT, ENGINES_ABOVE = 8000, 8500, 100
TAKEN_PORTS = (8000, 8100, 8200)
#: Seconds that a session's limits leave a rollout for its end.
ROLLOUT_MARGIN_S = 120


COMMANDS = """\
{serve}
vf-eval @ eval.toml -n 8 --no-push          # first: does a model play it? (verifiers 0.4.0)
uv run rl @ {folder}/rl.toml --dry-run      # in prime-rl's checkout: it validates the config
uv run rl @ {folder}/rl.toml"""


def export(facts: Facts, options: Options) -> Export:
    values = _values(facts, options)
    files = {
        "rl.toml": filled("prime_rl/rl.toml", values),
        "eval.toml": filled("prime_rl/eval.toml", values),
        "rows.jsonl": rows_text(facts.rows),
    }
    warnings = tuple(_warnings(facts, options))
    files["README.md"] = readme(
        f"{facts.name} for prime-rl",
        facts,
        versions=f"prime-rl {options.version} with verifiers 0.4.0",
        commands=COMMANDS.format(serve=_serve(facts), folder=options.folder),
        settings=_settings(facts, options, values),
        notes=(*warnings, *_notes(facts)),
    )
    return Export(files, warnings)


def _values(facts: Facts, options: Options) -> dict[str, object]:
    family, inflight = family_of(options.model), max_inflight(facts)
    group = group_size(inflight)
    in_train = options.version == VERSIONS[0]
    router = ROUTER_PORT if facts.root.port != ROUTER_PORT else OTHER_ROUTER_PORT
    return {
        "name": facts.name,
        "version": options.version,
        "model": quoted(options.model),
        "base_url": quoted(options.base_url),
        "api_key_var": quoted(options.api_key_var),
        "url": facts.url("nemo-gym"),
        "dataset": quoted(str(options.out / "rows.jsonl")),
        "seq_len": SEQ_LEN,
        "completion": COMPLETION_TOKENS,
        "batch_size": max(BATCH_SIZE // group, 1) * group,
        "train_group": f"\n[orchestrator.train]\ngroup_size = {group}\n" if in_train else "",
        "source_group": "" if in_train else f"group_size = {group}\n",
        "group": group,
        "renderer": family.renderer,
        "parser": f'\n[inference.vllm]\ntool_call_parser = "{family.tool_parser}"' if family.tool_parser else "",
        "capacity": facts.capacity,
        "inflight": inflight,
        "eval_inflight": min(EVAL_INFLIGHT, inflight),
        "request_timeout": facts.request_timeout_s,
        "setup_timeout": facts.request_timeout_s + 60,
        "scoring_timeout": facts.request_timeout_s + 60,
        "rollout_timeout": _rollout_timeout_s(float(facts.limits["lifetime_s"])),
        "max_turns": facts.max_turns,
        "env_port": facts.root.port,
        "router_port": router,
        "engine_port": router + ENGINES_ABOVE,
    }


def _rollout_timeout_s(lifetime_s: float) -> int:
    """Before the session expires, however short it lives."""
    return max(1, round(lifetime_s - min(2 * ROLLOUT_MARGIN_S, lifetime_s / 2)))


def max_inflight(facts: Facts) -> int:
    """Below the capacity by an eighth, which sessions of failed rollouts may hold until the idle limit."""
    return max(1, min(MAX_INFLIGHT, facts.capacity - facts.capacity // 8))


def group_size(inflight: int) -> int:
    """Not above `max_inflight`, which prime-rl refuses."""
    return min(GROUP_SIZE, inflight)


def _idle(facts: Facts) -> str:
    return f"{float(facts.limits['idle_timeout_s']):.10g}"


def _serve(facts: Facts) -> str:
    port = 8300 if facts.root.port in TAKEN_PORTS else facts.root.port
    return serve_command(
        facts, "--max-sessions", str(facts.limits["max_sessions"]), "--idle-timeout", _idle(facts), port=port
    )


def _warnings(facts: Facts, options: Options) -> list[str]:
    warnings = []
    if group_size(max_inflight(facts)) == 1:
        warnings.append(
            "The server's capacity leaves a group one rollout (group_size = 1), and nothing is learned from that: "
            f"serve it with --max-sessions {MAX_INFLIGHT + MAX_INFLIGHT // 4} and export again."
        )
    if facts.root.port in TAKEN_PORTS:
        warnings.append(
            f"The server listens on port {facts.root.port}, which prime-rl uses itself in some deployments: on the "
            "same machine serve on another one (--port 8300) and export again."
        )
    if family_of(options.model) is UNKNOWN:
        warnings.append(
            f"No renderer is known for {options.model}. prime-rl takes `auto` for models of its own list alone: for "
            'others set [orchestrator.renderer] name = "default" with tool_parser, or the renderer of its family.'
        )
    if facts.has_token:
        warnings.append(
            "The server asks for a token, and `task.headers` cannot name a variable: none is written. Use the package "
            "of `gymwire export verifiers` as `env.taskset.id`, which reads GYMWIRE_TOKEN from the environment. "
            "vf-eval takes it on its command line, too, and shows it in its resolved config: "
            '`--env.taskset.task.headers.Authorization "Bearer $GYMWIRE_TOKEN"`; a source of prime-rl, one of a list, '
            "cannot be reached from there."
        )
    return warnings


def _notes(facts: Facts) -> list[str]:
    return [
        "An errored rollout (a masked session, a full server) leaves loss and group mean; a 0.0 would not.",
        "`rl.toml` was not run: its `env` part is checked with verifiers' models, the rest against recorded keys. "
        "Sizes, learning rate and GPUs are yours to choose.",
        "Move the folder, and `env.taskset.dataset` must move with it: the path is absolute.",
    ]


def _settings(facts: Facts, options: Options, values: dict[str, object]) -> list[Setting]:
    queue = f"{float(facts.limits['queue_timeout_s']):g}"
    where = "orchestrator.train.group_size" if options.version == VERSIONS[0] else "group_size of the source"
    return [
        Setting(
            "orchestrator.concurrency.max_inflight",
            values["inflight"],
            f"1024: beyond {counted(facts.capacity, 'session')} a seed waits {queue} s for a place, and fails its "
            "rollout",
        ),
        Setting(where, values["group"], "1: a group of one has no advantage, and nothing is learned"),
        Setting(
            "env.taskset.task.headers.X-Gymwire-Masked",
            "error",
            "a session that our side broke counts as a reward of 0.0, in the mean and in the loss",
        ),
        Setting(
            "env.taskset.task.request_timeout",
            values["request_timeout"],
            f"60 s, against {queue} s in the queue and calls of {facts.info.tool_timeout_s:g} s: what is given up "
            "may still be carried out",
        ),
        Setting("env.agent.max_turns", values["max_turns"], "no limit: a policy that calls for ever holds its session"),
        Setting(
            "env.agent.timeout.setup, .scoring",
            values["setup_timeout"],
            "no limit of a stage; below `request_timeout` it would cut a seed that waits",
        ),
        Setting(
            "env.agent.timeout.rollout",
            values["rollout_timeout"],
            f"a session expires after {float(facts.limits['lifetime_s']):g} s, and the rollout is an error; this stops "
            "it before, and it is scored",
        ),
        Setting(
            "gymwire serve --idle-timeout",
            _idle(facts),
            "the server's default of 600 s; keep it above the longest turn of the model, weight updates included: "
            "below, live sessions expire, above, those of failed rollouts hold their places longer",
        ),
        Setting("orchestrator.renderer.name", values["renderer"], "`auto`, refused for fine-tunes and unknown models"),
        Setting(
            "inference.vllm.tool_call_parser",
            family_of(options.model).tool_parser or "(not set)",
            "found from the model's name; a wrong one leaves calls in the text",
        ),
        Setting(
            "inference.server.port",
            values["router_port"],
            f"8000: a server of environments there ({facts.root.port} here) would answer in the model's place",
        ),
        Setting("env.agent.harness.id", "null", "`bash`: an agent with a shell of its own beside the tools"),
        Setting("env.agent.runtime.type", "subprocess", "Prime's hosted sandboxes, which need an account"),
    ]


TARGET = Target("prime-rl", VERSIONS, export)
