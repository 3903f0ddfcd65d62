"""`report.html`: an evaluation as one page that needs nothing else, with a sample of its episodes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ...servers.transcripts import calls_in
from ...servers.types import Json, text_of
from ...servers.wording import counted
from .. import charts, markup
from ..page import page
from .results import MANIFEST, Folder, lines_of
from .tables import compared, figures

NAME = "report.html"
#: Episodes of each kind that are shown, and characters of a text.
EACH, SHOWN = 4, 4000
KINDS = {"failed": "masked", "cut": "cut", "solved": "solved", "partial": "in part", "zero": "reward 0 or less"}


def write_report(folder: Folder, summary: Mapping[str, Any]) -> None:
    """Make the page, whole or not at all. Raises `StorageFull`."""
    settings = (folder.manifest() or {}).get("settings") or {}
    title = f"gymwire eval: {escape(str(summary['model']))} on {escape(str(settings.get('environment', '')))}"
    parts = figures(summary)
    body = [f"<header><h1>{title}</h1></header><main>", markup.facts(dict(_pairs(parts[0][1])))]
    body += [_part(name, rows, _drawn(summary["groups"]) if name == "groups" else "") for name, rows in parts[1:]]
    rewards, episodes = _told(lines_of(folder.results), summary["solved_from"])
    body.append(markup.section("rewards", "Rewards", rewards))
    if "comparison" in summary:
        pairs, *others = compared(summary["comparison"])
        shown = markup.facts(dict(_pairs(pairs[1]))) + "".join(markup.table(r[0], r[1:]) for _, r in others)
        body.append(markup.section("compare", "Compared", shown))
    body.append(markup.section("episodes", "Episodes", episodes))
    pinned = json.dumps(folder.manifest(), indent=1, ensure_ascii=False)
    body.append(markup.section("settings", "Settings", markup.folded(MANIFEST, f"<pre>{escape(pinned)}</pre>")))
    folder.write(NAME, page(title, "".join([*body, "</main>"])))


def _pairs(rows: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in rows]


def _part(name: str, rows: Sequence[Sequence[str]], drawn: str = "") -> str:
    return markup.section(name, name.capitalize(), drawn + markup.table(rows[0], rows[1:]))


def _drawn(groups: Mapping[str, Any]) -> str:
    means = [charts.Group(name, part["mean"], part["standard_error"]) for name, part in groups.items()]
    return charts.means("Rewards of the groups", means, "reward")


def _told(lines: Iterable[Json], solved: float) -> tuple[str, str]:
    """How the rewards lie, and a sample of the episodes."""
    counts: Counter[str] = Counter()
    rewards, shown = [], []
    for line in lines:
        if line["reward"] is not None:
            rewards.append(line["reward"])
        kind = _kind(line, solved)
        if counts[kind] < EACH:
            shown.append(_episode(line, kind))
        counts[kind] += 1
    kinds = {kind: name for kind, name in KINDS.items() if counts[kind]}
    drawn = charts.histogram("Rewards", rewards, "reward") or markup.nothing("Every episode is masked.")
    return drawn, markup.sample(
        f"A sample of {counted(len(shown), 'episode')}; all are in results.jsonl.", kinds, shown
    )


def _kind(line: Json, solved: float) -> str:
    reward = line["reward"]
    if reward is None:
        return "failed"
    if line["ending"] == "cut":
        return "cut"
    return "solved" if reward >= solved else "partial" if reward > 0 else "zero"


def _episode(line: Json, kind: str) -> str:
    worth = '<span class="bad">masked</span>' if line["reward"] is None else f"reward {line['reward']:g}"
    said = "".join(_message(message) for message in [*line.get("prompt", ()), *line.get("messages", ())])
    if failure := line["failure"]:
        why = f"{failure['kind']} at {failure['stage']}: {failure['reason']}"
        said += f'<p class="bad">{escape(why)}</p>'
    return (
        f'<details class="episode" data-kinds="{kind}"><summary>row {line["row"]} ({escape(line["name"])}), repeat '
        f'{line["repeat"]}: {worth}<span class="tag">{KINDS[kind]}</span></summary><div>{said}</div></details>'
    )


def _message(message: Mapping[str, Any]) -> str:
    role = escape(str(message.get("role") or message.get("type") or ""))
    calls = [call["function"] for call in calls_in(message)]
    thought = message.get("reasoning_content")
    texts = [f"[thinking] {thought}" if thought else "", text_of(message.get("content"))]
    texts += [f"{call.get('name')}({call.get('arguments')})" for call in calls]
    text = "\n".join(filter(None, texts))
    more = f" … ({len(text) - SHOWN} more characters)" if len(text) > SHOWN else ""
    return f'<p class="role {role}">{role}</p><pre>{escape(text[:SHOWN] + more) or "(nothing)"}</pre>'
