"""The examination's report: a table, JSON, and JUnit's XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...servers.types import Json
from .findings import Finding, Verdict

STYLES = {Verdict.PASS: "green", Verdict.FAIL: "bold red", Verdict.ERROR: "bold red", Verdict.NOT_APPLICABLE: "dim"}


def print_report(console: Console, where: str, findings: Sequence[Finding]) -> None:
    """A line a promise; then what is broken, with evidence and fix."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for finding in findings:
        verdict = Text(finding.verdict.value, style=STYLES[finding.verdict])
        table.add_row(verdict, Text(finding.promise.name), Text(finding.reason))
    console.print(Text(where, style="bold"))
    console.print(table)
    for finding in findings:
        if finding.is_bad:
            _print_broken(console, finding)
    console.print(Text(f"\n{summary(findings)}"))


def _print_broken(console: Console, finding: Finding) -> None:
    promise = finding.promise
    console.print(Text(f"\n{promise.name}: {promise.means}", style="bold"))
    console.print(Text(f"  {finding.verdict.value}: {finding.reason}", style="red"))
    for exchange in finding.evidence:
        console.print(Text(f"  > {exchange.request}"))
        console.print(Text(f"  < {exchange.answer}"))
    console.print(Text(f"  why it matters: {promise.why}"))
    console.print(Text(f"  fix: {promise.fix}"))


def summary(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.verdict for finding in findings)
    return ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])


def as_json(where: str, wire: str, findings: Sequence[Finding]) -> Json:
    return {
        "url": where,
        "wire": wire,
        "ok": not any(finding.is_bad for finding in findings),
        "promises": [_as_json(finding) for finding in findings],
    }


def _as_json(finding: Finding) -> Json:
    found: Json = {
        "name": finding.promise.name,
        "verdict": finding.verdict.value,
        "reason": finding.reason,
        "seconds": round(finding.seconds, 3),
        "evidence": [{"request": item.request, "answer": item.answer} for item in finding.evidence],
    }
    if finding.is_bad:
        found["fix"] = finding.promise.fix
    return found


def write_junit(file: Path, where: str, wire: str, findings: Sequence[Finding]) -> None:
    """JUnit's XML as CI systems read it: a promise is a test case."""
    counts = Counter(finding.verdict for finding in findings)
    numbers = {
        "tests": len(findings),
        "failures": counts[Verdict.FAIL],
        "errors": counts[Verdict.ERROR],
        "skipped": counts[Verdict.NOT_APPLICABLE],
    }
    about = {"name": f"gymwire check {where} ({wire})"} | {key: str(value) for key, value in numbers.items()}
    suite = ElementTree.Element("testsuite", about)
    for finding in findings:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"gymwire.check.{wire}",
            name=finding.promise.name,
            time=f"{finding.seconds:.3f}",
        )
        _add_verdict(case, finding)
    ElementTree.ElementTree(suite).write(file, encoding="utf-8", xml_declaration=True)


def _add_verdict(case: ElementTree.Element, finding: Finding) -> None:
    tags = {Verdict.FAIL: "failure", Verdict.ERROR: "error", Verdict.NOT_APPLICABLE: "skipped"}
    tag = tags.get(finding.verdict)
    if tag is None:
        return
    element = ElementTree.SubElement(case, tag, message=finding.reason)
    lines = [line for item in finding.evidence for line in (f"> {item.request}", f"< {item.answer}")]
    element.text = "\n".join([*lines, f"fix: {finding.promise.fix}"])
