"""What is checked before a run: each fault is a sentence that names the fix. Needs neither torch nor TRL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from ..adapters.session import SessionFailed, WrongRequest
from ..servers.types import Message, RowError, Tool
from ..servers.wording import counted
from . import memory, stack
from .config import TRAINING, Config, ConfigError
from .geometry import Geometry
from .place import Place, find_place
from .refusals import refusals, router_refusal
from .rollout import NO_PROMPT, is_allowed
from .rows import RowBook, Source
from .weights import ModelError, context_of, looks_local, read_template, read_weights, router_coefficient_of

T = TypeVar("T")
#: Rows without a prompt of their own that are seeded, to see whether the environment's reset gives them one.
PROBED = 3
#: A session may wait this long for its next turn to be decoded, at the least.
DECODE_S = 60.0
PROBE_PATIENCE_S = 30.0


@dataclass(slots=True)
class Findings:
    """`lines` say what would run; with a fault it will not."""

    lines: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that may begin."""

    place: Place
    geometry: Geometry
    rows: RowBook
    eval_rows: RowBook


async def check(config: Config, findings: Findings) -> Plan | None:
    """Check everything, and go on past a fault where the rest can still be checked."""
    _check_stack(config, findings)
    geometry = _kept(findings, lambda: Geometry.of(config.trl))
    try:
        place = await find_place(config)
    except ConfigError as error:
        findings.faults.append(str(error))
        place = None
    _check_model(config, place is not None and place.offers_tools, findings)
    if place is None:
        return None
    _describe_place(place, findings)
    _check_tools(config, place.info.tools, place.info.name, findings)
    _check_times(config, place, findings)
    rows = _kept(findings, lambda: place.rows(config.data))
    eval_rows = _kept(findings, lambda: place.eval_rows(config.data))
    for book, what in ((rows, "rows"), (eval_rows, "held-out rows")):
        if book is not None:
            findings.lines[what] = str(len(book))
            _check_pinned_tools(config, book, findings)
            await _check_seeding(place, book, findings)
    if geometry is not None:
        _check_capacity(config, place, geometry, findings)
        _describe_steps(config, geometry, findings)
    if rows is None or eval_rows is None or geometry is None:
        return None
    return Plan(place, geometry, rows, eval_rows)


def _kept(findings: Findings, make: Callable[[], T]) -> T | None:
    try:
        return make()
    except ConfigError as error:
        findings.faults.append(str(error))
        return None


# ---- software and model


def _check_stack(config: Config, findings: Findings) -> None:
    lacking = stack.missing()
    if lacking:
        findings.notes.append(f"{', '.join(lacking)} not installed here: {stack.INSTALL}")
    if wrong := stack.wrong_pair():
        findings.faults.append(wrong)
    findings.faults += stack.tracker_faults(config.trl.get("report_to"), here=not lacking)
    findings.faults += refusals(config.trl)
    if not lacking and config.model.lora is not None and stack.installed("peft") is None:
        findings.faults.append("model.lora needs peft, which is not installed here: pip install peft")
    findings.lines["software"] = ", ".join(f"{name} {said}" for name, said in stack.versions().items())


def _check_model(config: Config, offers_tools: bool, findings: Findings) -> None:
    path = config.model.path
    findings.lines["model"] = path
    if not looks_local(path):
        findings.notes.append(f"model {path} is a hub name: its template and its size were not checked")
        return
    folder = Path(path).expanduser()
    if not (folder / "config.json").is_file():
        findings.faults.append(
            f"model.path: {path} is no folder with a model's config.json; save one there, or make a small policy with: "
            f"gymwire policy tiny {path}"
        )
        return
    if why := _template_fault(config, folder, offers_tools):
        findings.faults.append(why)
    if why := router_refusal(router_coefficient_of(folder), config.trl):
        findings.faults.append(why)
    _check_context(config, folder, findings)
    _check_memory(config, folder, findings)


def _template_fault(config: Config, folder: Path, offers_tools: bool) -> str | None:
    """Read as text; what it makes of dialogues is checked when the run begins."""
    named = config.model.chat_template
    if named == TRAINING:
        return None
    if named is not None and not Path(named).is_file():
        return f"model.chat_template: there is no file {named}; name one, or {TRAINING!r} for TRL's own"
    template = read_template(folder) if named is None else Path(named).read_text(encoding="utf-8", errors="replace")
    where = named or f"the chat template of {config.model.path}"
    if template is None:
        return f"model.path: {config.model.path} has no chat template; add a chat_template.jinja that renders tools"
    if offers_tools and "tools" not in template:
        return f"{where} does not render tools; use one that does, or model.chat_template: {TRAINING}"
    return None


def _check_context(config: Config, folder: Path, findings: Findings) -> None:
    context, wanted = context_of(folder), config.rollout.max_tokens
    if context is not None and wanted >= context:
        findings.faults.append(
            f"rollout.max_tokens {wanted} leaves no room for a prompt in the model's context of {context}; lower it"
        )


def _check_memory(config: Config, folder: Path, findings: Findings) -> None:
    try:
        weights = read_weights(folder)
    except ModelError as error:
        findings.faults.append(f"model.path: {error}")
        return
    findings.lines["parameters"] = f"{weights.parameters / 1e6:,.1f} M"
    gpus = [] if stack.is_cpu() else memory.free_gpu_gib()
    needed = memory.need(config, weights, cpu=not gpus)
    free = min(gpus) if gpus else memory.free_gib()
    parts = ", ".join(f"{name} {gib:.1f}" for name, gib in needed.parts.items())
    where = "GPU memory" if gpus else "memory"
    findings.lines[where] = f"about {needed.total_gib:.1f} GiB ({parts})" + (f" of {free:.1f} free" if free else "")
    if free is not None and needed.total_gib > free:
        findings.faults.append(
            f"the run needs about {needed.total_gib:.1f} GiB of {where}, and {free:.1f} are free; take a smaller "
            "model, train with model.lora, or free some"
        )


# ---- environment


def _describe_place(place: Place, findings: Findings) -> None:
    where = place.identity.url or "this process"
    served = f", gymwire {place.identity.version}" if place.identity.version else ""
    findings.lines["environment"] = f"{place.info.name} on {place.identity.wire} ({where}{served})"
    findings.lines["tools"] = ", ".join(tool.name for tool in place.info.tools) or "named by the rows"


def _check_tools(config: Config, tools: Sequence[Tool], place: str, findings: Findings) -> None:
    _check_schemas(tools, place, findings)
    patterns = config.environment.allowed_tools
    if patterns is not None and tools and not any(is_allowed(tool.name, patterns) for tool in tools):
        names = ", ".join(tool.name for tool in tools)
        findings.faults.append(f"environment.allowed_tools {patterns} allows none of the tools: {names}")


def _check_schemas(tools: Iterable[Tool], place: str, findings: Findings) -> None:
    """Each fault once, though the environment and a session of it both have the tool."""
    for tool in tools:
        fault = f"the tool {tool.name} of {place} {schema_fault(tool)}"
        if schema_fault(tool) is not None and fault not in findings.faults:
            findings.faults.append(fault)


def schema_fault(tool: Tool) -> str | None:
    """Why a tool's parameters are no JSON schema that a policy can be offered."""
    kind = tool.parameters.get("type")
    if kind not in (None, "object"):
        return f"takes {kind!r} as its parameters; a tool's schema must be of type object"
    try:
        Draft202012Validator.check_schema(tool.parameters)
    except SchemaError as error:
        where = ".".join(str(step) for step in error.absolute_path) or "its root"
        return f"has parameters that are no JSON schema: at {where}: {error.message[:200]}; correct its definition"
    return None


def _check_times(config: Config, place: Place, findings: Findings) -> None:
    ours = config.rollout.tool_timeout_s
    theirs = max(place.info.tool_timeout_s, place.info.verify_timeout_s)
    if ours < theirs and place.identity.version:
        findings.faults.append(
            f"rollout.tool_timeout_s {ours:g} is below the {theirs:g} s that {place.info.name} gives a call or a "
            f"verdict, so sessions would be given up while they are at work; set it to {theirs + 5:g} or more"
        )
    idle_s = place.limits.get("idle_timeout_s")
    if isinstance(idle_s, int | float) and idle_s < DECODE_S:
        findings.faults.append(
            f"the server drops a session after {idle_s:g} s without a call, and a turn may take longer to decode; "
            "serve with --idle-timeout 600"
        )


def _check_capacity(config: Config, place: Place, geometry: Geometry, findings: Findings) -> None:
    own = min(config.environment.max_concurrent, geometry.rollouts // geometry.processes)
    flight = own * geometry.processes
    findings.lines["sessions in flight"] = str(flight)
    capacity = place.limits.get("max_sessions")
    if isinstance(capacity, int) and capacity < flight:
        findings.faults.append(
            f"{flight} sessions would be in flight at once, and the server holds {capacity}; serve with "
            f"--max-sessions {flight}, or set environment.max_concurrent to {max(capacity // geometry.processes, 1)}"
        )


def _describe_steps(config: Config, geometry: Geometry, findings: Findings) -> None:
    steps, epochs = config.trl.get("max_steps", -1), config.trl.get("num_train_epochs", 3)
    for key, value in (("max_steps", steps), ("num_train_epochs", epochs)):
        if isinstance(value, bool) or not isinstance(value, int | float):
            findings.faults.append(f"trl.{key} must be a number, got {value!r}")
            return
    length = counted(steps, "step") if steps > 0 else counted(epochs, "epoch")
    findings.lines["rollouts"] = (
        f"{geometry.groups} rows x {geometry.group} samples, used for {counted(geometry.micro_batches, 'pass')}; "
        f"{length}"
    )
    findings.lines["run folder"] = str(config.log.dir)


# ---- rows


def _check_pinned_tools(config: Config, book: RowBook, findings: Findings) -> None:
    """Tools that rows bring themselves; each different fault once."""
    seen: set[str] = set()
    for source in book.by_name.values():
        for tool in (source.row.tools or ()) if source.row else ():
            why = schema_fault(tool)
            if why and why not in seen:
                seen.add(why)
                findings.faults.append(f"row {source.name}: the tool {tool.name} {why}")


async def _check_seeding(place: Place, book: RowBook, findings: Findings) -> None:
    """Rows without a prompt, after the environment's reset had its chance to give them one; and one row in any case.

    The tools that these are offered are looked at, too: rows and strangers' servers may have tools of their own.
    """
    sources = list(book.by_name.values())
    bare = [source for source in sources if source.row is not None and not source.row.prompt]
    can_prompt = place.served is None or place.served.resets
    if bare and not can_prompt:
        findings.faults.append(_no_prompt(bare, len(sources)))
        return
    probed = [*bare[:PROBED], *sources[:1]]
    try:
        seeded = [(source, *await _seeded(place, source)) for source in probed]
    except (WrongRequest, RowError) as error:
        findings.faults.append(f"a row cannot be seeded: {error}")
    except SessionFailed as failure:
        findings.faults.append(_no_seed(place, failure))
    else:
        for _, _, tools in seeded:
            _check_schemas(tools, place.info.name, findings)
        if empty := [source for source, prompt, _ in seeded if not prompt]:
            findings.faults.append(_no_prompt(bare or empty, len(sources)))


async def _seeded(place: Place, source: Source) -> tuple[Sequence[Message], Sequence[Tool]]:
    """The prompt and the tools that a session of a row begins with."""
    connection = place.connection(PROBE_PATIENCE_S)
    async with (
        connection,
        connection.session(row=source.row, split=source.split, index=source.index, seed=0) as session,
    ):
        return session.prompt, session.tools


def _no_seed(place: Place, failure: SessionFailed) -> str:
    said, url = " ".join(str(failure).split())[:300], place.identity.url
    fix = "look at its log" if place.identity.version else f"is {url} a server of the wire {place.identity.wire}?"
    return f"{place.info.name} fails to seed a row: {said}; {fix}"


def _no_prompt(sources: Iterable[Source], total: int) -> str:
    names = [source.name for source in sources]
    shown = ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
    return f"{len(names)} of {total} rows have no prompt ({shown}): {NO_PROMPT}"
