"""The report's sample of episodes: which ones are shown, and how one reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ..servers.transcripts import calls_in
from ..servers.wording import counted
from . import trajectories
from .trajectories import Record

#: Steps and evaluations that are looked at, episodes of each kind that one shows, and characters of a text.
STEPS, EVALUATIONS, EACH, SHOWN = 8, 3, 2, 4000
#: What an episode can be, and how the filter calls it.
KINDS = {
    "failed": "failed",
    "dull": "group without variance",
    "replaced": "replaced by a fresh row",
    "recovered": "recovered or retried",
    "cut": "cut",
    "best": "the best of a group",
    "worst": "the worst of a group",
    "eval": "held out, temperature 1",
    "greedy": "held out, greedy",
    "solved": "held out, the best",
    "unsolved": "held out, below the best",
}


def chosen(run: Path, troubled: Sequence[int]) -> list[tuple[int, Record]]:
    """Episodes from steps all over the run, from `troubled` ones, and from evaluations, in order."""
    paths = trajectories.files(run)
    steps, evaluations = (_steps_of(paths, evaluation=asked) for asked in (False, True))
    looked_at = {*_spread(steps, STEPS), *(step for step in _spread(troubled, STEPS // 2) if step in steps)}
    evaluated = set(_spread(evaluations, EVALUATIONS))
    found = []
    for path in paths:
        step = trajectories.step_of(path)
        if step in (evaluated if trajectories.is_evaluation(path) else looked_at):
            found += [(step, record) for record in _sample(trajectories.read(path))]
    return found


def _steps_of(paths: Sequence[Path], *, evaluation: bool) -> list[int]:
    return sorted({trajectories.step_of(path) for path in paths if trajectories.is_evaluation(path) is evaluation})


def _spread(steps: Sequence[int], count: int) -> list[int]:
    """The first, the last, and some between."""
    if len(steps) <= count:
        return list(steps)
    return [steps[round(place * (len(steps) - 1) / (count - 1))] for place in range(count)]


def _sample(records: Iterator[Record]) -> list[Record]:
    """Some of every kind."""
    counts = dict.fromkeys(KINDS, 0)
    kept = []
    for record in _marked(list(records)):
        wanted = [kind for kind in record["kinds"] if counts[kind] < EACH]
        if wanted:
            kept.append(record)
            for kind in record["kinds"]:
                counts[kind] += 1
    return kept


def _marked(records: list[Record]) -> list[Record]:
    groups: dict[object, list[float]] = {}
    for record in records:
        if record["reward"] is not None:
            groups.setdefault(_group(record), []).append(record["reward"])
    return [{**record, "kinds": _kinds(record, groups.get(_group(record), []))} for record in records]


def _group(record: Record) -> object:
    """Whom it is compared with: all of an evaluation, those of its row in training."""
    return "eval" if record["mode"] == "eval" else (record["row"], record["seed"])


def _kinds(record: Record, rewards: Sequence[float]) -> list[str]:
    reward, varied, held_out = record["reward"], record["group_has_variance"], record["mode"] == "eval"
    marks = {
        "failed": record["failure"] is not None,
        "dull": not varied and not held_out,
        "replaced": record["replaced"],
        "recovered": bool(record["recovered"] or record["retried"]),
        "cut": record["ending"] == "cut",
        "best": varied and reward is not None and reward == max(rewards),
        "worst": varied and reward is not None and reward == min(rewards),
        "eval": held_out and not record["greedy"],
        "greedy": record["greedy"],
        "solved": held_out and reward is not None and reward == max(rewards) > min(rewards),
        "unsolved": held_out and reward is not None and reward < max(rewards),
    }
    return [kind for kind, marked in marks.items() if marked]


# ---- how one reads


def shown(step: int, record: Record) -> str:
    """One episode as HTML that opens and closes."""
    failure, reward = record["failure"], record["reward"]
    worth = '<span class="bad">failed</span>' if reward is None else f"reward {reward:g}"
    tags = "".join(f'<span class="tag">{KINDS[kind]}</span>' for kind in record["kinds"])
    parts = [f'<p class="soft facts-line">{_facts(record)}</p>']
    if failure is not None:
        said = f"{failure['kind']} at {failure['stage']}: {failure['reason']}"
        parts.append(f'<p class="bad">{escape(said)}</p>')
    parts += [_message(message) for message in [*record["prompt"], *record["messages"]]]
    parts.append(_calls(record["calls"]))
    return (
        f'<details class="episode" data-kinds="{" ".join(record["kinds"])}"><summary>'
        f"{_name(step, record)}: {worth}{tags}</summary>"
        f"<div>{''.join(parts)}</div></details>"
    )


def _name(step: int, record: Record) -> str:
    row = escape(str(record["row"]))
    return f"after step {step}, {row}" if record["mode"] == "eval" else f"step {step}, {row}, sample {record['sample']}"


def _facts(record: Record) -> str:
    times, sampled = record["times"], sum(record["sampled"])
    spent = ", ".join(f"{name.removesuffix('_s')} {seconds:.2f} s" for name, seconds in times.items() if seconds)
    components = ", ".join(f"{name} {value:g}" for name, value in record["components"].items())
    facts = [
        f"{record['ending']}",
        counted(len(record["turns"]), "turn"),
        f"{counted(sampled, 'token')} sampled, {len(record['sampled']) - sampled} put between",
        "held out" if record["mode"] == "eval" else "in the update" if record["trained"] else "not in the update",
        *(f"{name} {counted(record[name], 'time')}" for name in ("recovered", "retried") if record[name]),
        f"components: {components}" if components else "",
        spent,
        f"episode {record['episode']}",
    ]
    return escape("; ".join(fact for fact in facts if fact))


def _message(message: Mapping[str, Any]) -> str:
    role, content = str(message.get("role", "")), message.get("content") or ""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    calls = [call["function"] for call in calls_in(message)]
    said = (f"{call.get('name')}({call.get('arguments')})" for call in calls)
    text = "\n".join([*([text] if text else []), *said])
    return f'<p class="role {escape(role)}">{escape(role)}</p><pre>{escape(_short(text)) or "(nothing)"}</pre>'


def _calls(calls: Sequence[Mapping[str, Any]]) -> str:
    if not calls:
        return ""
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(_short(cell, 200))}</td>' for cell in _cells(call))}</tr>" for call in calls
    )
    head = "<tr><th>tool</th><th>arguments</th><th>answer</th><th></th></tr>"
    return f'<p class="role">what the session was asked</p><table>{head}{rows}</table>'


def _cells(call: Mapping[str, Any]) -> list[str]:
    argument = json.dumps(call["argument"], ensure_ascii=False)
    return [call["tool"] or "end of turn", argument, str(call["text"]), _marks(call)]


def _marks(call: Mapping[str, Any]) -> str:
    return ", ".join(name for name, key in (("error", "is_error"), ("ended it", "done")) if call.get(key))


def _short(text: str, limit: int = SHOWN) -> str:
    return text if len(text) <= limit else f"{text[:limit]} … ({len(text) - limit} more characters)"
