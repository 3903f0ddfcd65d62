"""The page docs/check.md: its promises are those of the table in the source, its verdicts those that were seen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from gymwire.adapters.doctor.findings import Finding, Verdict
from gymwire.adapters.doctor.promises import PROMISES, Promise

PAGE = Path(__file__).parents[3] / "docs" / "check.md"


def promises_part() -> str:
    """A section a promise."""
    return "\n\n".join(map(_section, PROMISES.values()))


def _section(promise: Promise) -> str:
    return (
        f"### {promise.name}\n\n"
        f"**{promise.means}** On {', '.join(promise.wires)}.\n\n"
        f"{promise.why}\n\n"
        f"- Tested by: {promise.how}\n"
        f"- Fix: {promise.fix}\n"
        f"- Source: {promise.source}."
    )


def verdicts_part(findings: Sequence[Finding]) -> str:
    """A row a promise, with what was wrong."""
    rows = [f"| {f.promise.name} | {f.verdict.value} | {_reason(f)} |" for f in findings]
    return "\n".join(["| promise | verdict | what was wrong, or why it was not tested |", "|---|---|---|", *rows])


def _reason(finding: Finding) -> str:
    if finding.verdict is Verdict.PASS:
        return ""
    text = re.sub(r"probe-[0-9a-f]{6}-", "probe-", finding.reason)
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def verdicts_of(part: str) -> dict[str, str]:
    """The verdicts of a table, by promise."""
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in part.splitlines()[2:]]
    return {row[0]: row[1] for row in cells}


def read_part(text: str, name: str) -> str:
    """What stands between a part's marks."""
    match = re.search(rf"<!-- {re.escape(name)} -->\n(.*?)\n<!-- end -->", text, re.DOTALL)
    assert match is not None, f"docs/check.md has no part {name}"
    return match[1]


def with_parts(text: str, parts: Mapping[str, str]) -> str:
    """The page with these parts in the place of its own."""
    for name, part in parts.items():
        text = text.replace(
            f"<!-- {name} -->\n{read_part(text, name)}\n<!-- end -->", f"<!-- {name} -->\n{part}\n<!-- end -->"
        )
    return text
