"""`report.html`: a run as one page that needs nothing else, made from the files of its folder alone.

A run writes it when it ends; `python -m gymwire.trainer.report RUN` makes it again.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import sqrt
from pathlib import Path
from typing import Any, TypeGuard

import yaml

from ..adapters import charts, markup
from ..adapters.markup import facts as facts_list
from ..adapters.markup import folded as _folded
from ..adapters.markup import folded_table as _table
from ..adapters.markup import nothing as _none
from ..adapters.markup import section as _section
from ..adapters.markup import table as _rows
from ..adapters.page import page
from ..servers.wording import counted
from . import episodes
from .trajectories import read

NAME = "report.html"
PARTS = ("decode", "tools", "wait", "verify", "train", "sync", "eval")
Entry = Mapping[str, Any]


def write_report(run: Path) -> Path:
    """Make the page, whole or not at all."""
    path = run / NAME
    part = path.with_suffix(".part")
    part.write_text(report_of(run), encoding="utf-8", errors="backslashreplace")
    os.replace(part, path)
    return path


def report_of(run: Path) -> str:
    entries = _read(run / "steps.jsonl")
    steps = [entry for entry in entries if "eval/reward" not in entry]
    evaluations = [entry for entry in entries if "eval/reward" in entry]
    manifest = _manifest(run)
    failures = _read(run / "failures.jsonl")
    troubled = sorted({int(line["step"]) for line in failures if line.get("step")})
    title = f"gymwire run: {escape(_environment(manifest))}"
    body = [
        f"<header><h1>{title}</h1>{_lead(manifest)}{_navigation()}</header><main>",
        _facts(steps, evaluations, manifest),
        _section("reward", "Reward", _reward(steps, evaluations)),
        _section("sessions", "Sessions", _sessions(steps, failures)),
        _section("time", "Time", _time(steps)),
        _section("episodes", "Episodes", _episodes(run, troubled)),
        _section("audit", "Audit of the first step", _audit(manifest)),
        _section("config", "Config and manifest", _pins(run, manifest)),
        "</main>",
    ]
    return page(title, "".join(body))


# ---- parts


def _lead(manifest: Entry) -> str:
    state = str(manifest.get("state", "unknown"))
    said = f"{state}: {manifest['reason']}" if manifest.get("reason") else state
    kind = {"finished": "good", "failed": "bad"}.get(state, "soft")
    started = f", begun {str(manifest['started'])[:16].replace('T', ' ')} UTC" if manifest.get("started") else ""
    return f'<p><span class="{kind}">{escape(said)}</span><span class="soft">{escape(started)}</span></p>'


def _navigation() -> str:
    names = ("reward", "sessions", "time", "episodes", "audit", "config")
    return '<nav aria-label="Sections">' + "".join(f'<a href="#{name}">{name}</a>' for name in names) + "</nav>"


def _facts(steps: Sequence[Entry], evaluations: Sequence[Entry], manifest: Entry) -> str:
    facts = {"steps": str(steps[-1]["step"]) if steps else "0"}
    for name, chosen in (("held out before", evaluations[:1]), ("held out after", evaluations[1:][-1:])):
        for entry in chosen:
            facts[name] = _with_error(entry["eval/reward"], entry["eval/reward_se"])
    facts["sessions played"] = f"{_sum(steps, 'sessions/played'):.0f}"
    facts["masked / recovered / retried"] = " / ".join(
        f"{_sum(steps, f'sessions/{name}'):.0f}" for name in ("masked", "recovered", "retried")
    )
    facts["time in steps"] = f"{_sum(steps, 'time/step_s'):.0f} s"
    if change := manifest.get("parameter_change"):
        facts["change of the parameters"] = f"{change['change']:.3g}" if isinstance(change, Mapping) else f"{change}"
    return facts_list(facts)


def _reward(steps: Sequence[Entry], evaluations: Sequence[Entry]) -> str:
    trained = [(entry["step"], entry["reward"], _error_of(entry)) for entry in steps if _is(entry.get("reward"))]
    sampled, greedy = (_evaluated(evaluations, name) for name in ("eval/reward", "eval/greedy_reward"))
    curves = [charts.Line("held out, temperature 1", sampled), charts.Line("held out, greedy", greedy)]
    one = charts.lines("Reward of the sessions of each step", [charts.Line("sessions of the step", trained)])
    two = charts.lines("Reward on held-out rows", curves)
    return (
        f"<h3>Training</h3>{one or _none()}"
        '<p class="soft">The band is one standard error of the mean, as if sessions were independent; those of a group '
        "share a row.</p>"
        f"<h3>Held-out rows</h3>{two or _none()}"
        + _table("figures", ["step", "reward", "standard error"], [[*map(_figure, point)] for point in trained])
        + _table(
            "held-out figures",
            ["step", "temperature 1", "greedy", "rows", "failed"],
            [
                [
                    _figure(entry["step"]),
                    _with_error(entry["eval/reward"], entry["eval/reward_se"]),
                    _with_error(entry["eval/greedy_reward"], entry["eval/greedy_reward_se"]),
                    _figure(entry.get("eval/rows")),
                    _figure(entry.get("eval/failed")),
                ]
                for entry in evaluations
            ],
        )
    )


def _sessions(steps: Sequence[Entry], failures: Sequence[Entry]) -> str:
    named = {"masked": "sessions/masked", "recovered": "sessions/recovered", "retried": "sessions/retried"}
    groups = {
        "without variance": "groups/zero_variance",
        "fewer than two survivors": "groups/no_signal",
        "replaced by fresh rows": "groups/refilled",
    }
    broken = _bars("Masked, recovered and retried sessions", steps, named)
    dull = _bars("Groups that teach nothing", steps, groups)
    rows = [
        [str(line.get(key, "")) for key in ("step", "episode", "stage", "tool", "kind", "reason")]
        for line in failures[:200]
    ]
    return (
        f"<h3>Masked, recovered, retried</h3>{broken or _none('No session failed.')}"
        f"<h3>Groups without a signal</h3>{dull or _none('Every group had one.')}"
        + _table("counts", ["step", *named, *groups], _counts(steps, [*named.values(), *groups.values()]))
        + _table(f"failures ({len(failures)})", ["step", "episode", "stage", "tool", "kind", "reason"], rows)
    )


def _time(steps: Sequence[Entry]) -> str:
    keys = {part: f"time/{part}_s" for part in PARTS}
    total = _sum(steps, "time/step_s")
    shares = [[part, f"{_sum(steps, key):.1f}", _share(_sum(steps, key), total)] for part, key in keys.items()]
    return (
        "<h3>Seconds of each step</h3>"
        + (_bars("Seconds of each step by what they were spent on", steps, keys, " s") or _none())
        + '<p class="soft">Sessions overlap: a rollout\'s seconds are shared out by what its sessions did; what no '
        "part claims is training.</p>" + _table("sums", ["part", "seconds", "share"], shares)
    )


def _episodes(run: Path, troubled: Sequence[int]) -> str:
    found = episodes.chosen(run, troubled)
    if not found:
        return _none("There are no trajectories; a run writes them with log.trajectories: true.")
    present = {k: name for k, name in episodes.KINDS.items() if any(k in record["kinds"] for _, record in found)}
    said = f"A sample of {counted(len(found), 'episode')}; all are in the folder {run.name}/trajectories."
    return markup.sample(said, present, [episodes.shown(step, record) for step, record in found])


def _audit(manifest: Entry) -> str:
    checks = manifest.get("audit")
    if not checks:
        return _none("Not made; log.audit_first_step: true asks for it.")
    rows = [
        [check["check"], str(check["episodes"]), str(len(check["disagreements"])), _skipped(check["not_checked"])]
        for check in checks
    ]
    return _rows(["check", "episodes", "disagree", "not checked"], rows)


def _pins(run: Path, manifest: Entry) -> str:
    config = run / "config.yaml"
    text = config.read_text(encoding="utf-8") if config.exists() else yaml.safe_dump(manifest.get("config"))
    pinned = json.dumps(manifest, indent=1, ensure_ascii=False)
    return _folded("config.yaml", f"<pre>{escape(text)}</pre>") + _folded(
        "manifest.json", f"<pre>{escape(pinned[:60_000])}</pre>"
    )


# ---- details


def _read(path: Path) -> list[Entry]:
    return list(read(path)) if path.exists() else []


def _manifest(run: Path) -> dict[str, Any]:
    try:
        return json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _environment(manifest: Entry) -> str:
    return str((manifest.get("environment") or {}).get("name", "unknown environment"))


def _evaluated(entries: Iterable[Entry], name: str) -> list[tuple[float, float, float | None]]:
    return [(entry["step"], entry[name], entry.get(f"{name}_se")) for entry in entries if _is(entry.get(name))]


def _error_of(entry: Entry) -> float | None:
    """The standard error of a step's mean reward."""
    spread, count = entry.get("rewards/reward/std"), entry.get("sessions/trainable")
    spread = entry.get("reward_std") if spread is None else spread
    return spread / sqrt(count) if _is(spread) and _is(count) and count > 1 else None


def _bars(title: str, steps: Sequence[Entry], keys: Mapping[str, str], unit: str = "") -> str:
    stacks = [charts.Stack(name, [entry.get(key) or 0.0 for entry in steps]) for name, key in keys.items()]
    return charts.bars(title, [entry["step"] for entry in steps], stacks, unit)


def _counts(steps: Sequence[Entry], keys: Sequence[str]) -> list[list[str]]:
    return [[_figure(entry["step"]), *(_figure(entry.get(key)) for key in keys)] for entry in steps]


def _sum(entries: Iterable[Entry], key: str) -> float:
    return sum(entry.get(key) or 0.0 for entry in entries)


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else ""


def _is(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float)


def _figure(value: Any) -> str:
    return f"{value:.4g}" if _is(value) else ""


def _with_error(value: Any, error: Any) -> str:
    said = f"{value:.3f}" if _is(value) else "none"
    return f"{said} ± {error:.3f}" if _is(error) else said


def _skipped(reasons: Mapping[str, int]) -> str:
    return "; ".join(f"{count}: {why}" for why, count in reasons.items())


if __name__ == "__main__":
    print(write_report(Path(sys.argv[1])))
