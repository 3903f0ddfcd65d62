"""The figures of a run as rows of text, alike in the terminal and in the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...servers.wording import counted

Cells = Sequence[Sequence[str]]


def figures(summary: Mapping[str, Any]) -> list[tuple[str, Cells]]:
    """(title, rows): the first part has no title and no heads, the first row of every other one has the heads."""
    parts: list[tuple[str, Cells]] = [("", main_figures(summary))]
    if summary["components"]:
        rows = [[name, f"{value:.4f}"] for name, value in summary["components"].items()]
        parts.append(("components", [["component", "mean"], *rows]))
    if summary["masked_by"]:
        because = summary["masked_because"]
        rows = [[kind, str(count), because[kind]] for kind, count in summary["masked_by"].items()]
        parts.append(("masked", [["masked by", "episodes", "for example"], *rows]))
    if summary["groups"]:
        heads = ["group", "reward", "rows", "episodes", "masked"]
        rows = [
            [name, with_error(part), str(part["rows"]), str(part["episodes"]), str(part["masked"])]
            for name, part in summary["groups"].items()
        ]
        parts.append(("groups", [heads, *rows]))
    return parts


def main_figures(summary: Mapping[str, Any]) -> list[list[str]]:
    episodes, endings, tokens, seconds = (summary[name] for name in ("episodes", "endings", "tokens", "seconds"))
    reward = summary["reward"]
    of_what = f"{counted(reward['rows'], 'row')}, {counted(reward['episodes'], 'episode')}"
    rows = [["reward", f"{with_error(reward)}  ({of_what})"]]
    for found in summary["pass"]:
        of = "" if found["rows"] == reward["rows"] else f"  ({counted(found['rows'], 'row')})"
        rows.append([f"pass@{found['k']}", f"{number(found['at'], 3)}{of}"])
        if found["k"] > 1:
            rows.append([f"pass^{found['k']}", f"{number(found['all'], 3)}{of}"])
    cut = ", ".join(f"{count} by {what}" for what, count in summary["cut_by"].items())
    rows += [
        ["finished", share(endings["finished"], episodes["played"])],
        ["cut", share(endings["cut"], episodes["played"]) + (f": {cut}" if cut else "")],
        ["masked", share(endings["failed"], episodes["played"])],
        ["turns", number(summary["turns"], 2)],
        ["calls", f"{number(summary['calls'], 2)}  ({counted(summary['tool_errors'], 'error')} in all)"],
        ["tokens", _tokens(tokens)],
        ["seconds", f"{number(seconds['episode_mean'], 2)} an episode, of which {number(seconds['model_mean'], 2)} "
         f"waiting for the model; {seconds['wall']:.1f} in all"],
    ]  # fmt: skip
    if summary["refused"]:
        rows.append(["refused", f"{counted(summary['refused'], 'answer')}"])
    if episodes["played"] < episodes["planned"]:
        rows.insert(0, ["played", f"{episodes['played']} of {episodes['planned']} episodes"])
    return rows


def _tokens(tokens: Mapping[str, Any]) -> str:
    if tokens["completion"] is None:
        return "not told by the endpoint"
    said = f"{tokens['prompt'] or 0:,} in, {tokens['completion']:,} out"
    said += f" ({tokens['reasoning']:,} of them reasoning)" if tokens["reasoning"] else ""
    return said + (f"; not told for {counted(tokens['untold'], 'episode')}" if tokens["untold"] else "")


def compared(comparison: Mapping[str, Any]) -> list[tuple[str, Cells]]:
    """Two runs side by side; see `figures` for the form."""
    found = comparison["paired"]
    low, high = number(found["low"], 4, sign=True), number(found["high"], 4, sign=True)
    interval = f"  (95 %: {low} to {high})" if found["low"] is not None else ""
    error = f" ± {found['standard_error']:.4f}" if found["standard_error"] is not None else ""
    test = f"; sign test p = {found['sign_p']:.3g}" if found["sign_p"] is not None else ""
    rows = [
        ["shared rows", f"{found['rows']}{_unshared(comparison)}"],
        [f"{comparison['other']['name']}", number(found["first"], 4)],
        [f"{comparison['this']['name']}", number(found["second"], 4)],
        ["difference", f"{number(found['difference'], 4, sign=True)}{error}{interval}"],
        ["wins, losses, ties", f"{found['wins']}, {found['losses']}, {found['ties']}{test}"],
    ]
    parts: list[tuple[str, Cells]] = [("", rows)]
    if comparison["changed"]:
        heads = ["row", comparison["other"]["name"], comparison["this"]["name"], "difference"]
        most = [
            [
                item["name"],
                number(item["first"], 3),
                number(item["second"], 3),
                number(item["difference"], 3, sign=True),
            ]
            for item in comparison["changed"]
        ]
        parts.append(("changed most", [heads, *most]))
    return parts


def _unshared(comparison: Mapping[str, Any]) -> str:
    said = [
        f"{comparison[key]} {what}"
        for key, what in (("only_other", "only there"), ("only_this", "only here"))
        if comparison[key]
    ]
    return f"  ({', '.join(said)})" if said else ""


def with_error(found: Mapping[str, Any]) -> str:
    error = found["standard_error"]
    return number(found["mean"], 4) + ("" if error is None else f" ± {error:.4f}")


def number(value: Any, digits: int, *, sign: bool = False) -> str:
    return "none" if value is None else f"{value:{'+' if sign else ''}.{digits}f}"


def share(count: int, whole: int) -> str:
    return f"{count}  ({100 * count / whole:.1f} %)" if whole else str(count)
