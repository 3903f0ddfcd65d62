"""Judge row files before a run: `gymwire rows check`."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer

from ..row_check import WRONG, Kind, Report, check_files
from ..types import RowError
from ..wording import counted
from .options import environment_names, read_served, stop

WRONG_EXIT = 1
MEANINGS = {
    Kind.ERROR: "no row",
    Kind.REFUSED: "the environment does not take it",
    Kind.SHARED: "the same prompt in two files",
    Kind.TOOL: "function calling takes it badly",
    Kind.DUPLICATE: "the same row twice in a file",
    Kind.DESCRIPTION: "tools and arguments without one, or with generated titles",
    Kind.LEAK: "an answer that stands in its prompt",
}


def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="As for `rows convert`; - for JSONL.")],
    env: Annotated[
        str,
        typer.Option(
            help="Ask this environment whether it takes the rows, too.",
            metavar="NAME",
            autocompletion=environment_names,
        ),
    ] = "",
    settings: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="A constructor argument of --env; repeatable.")
    ] = [],  # noqa: B006
    prompt_column: Annotated[str, typer.Option(metavar="NAME", help="The column that holds the prompt.")] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Hints make the exit status 1 as well.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what is wrong with row files, alone and beside each other; exit status 1 where something is."""
    served = read_served([env], settings)[0] if env else None
    try:
        report = check_files(files, served, prompt_column)
    except RowError as error:
        stop(str(error))
    if as_json:
        typer.echo(orjson.dumps(_as_json(report), option=orjson.OPT_INDENT_2).decode())
    else:
        _print(report)
    raise typer.Exit(WRONG_EXIT if report.is_wrong or (strict and report.has_hints) else 0)


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "wrong": report.is_wrong,
        "files": [{"file": item.file, "rows": item.rows, "forms": dict(item.forms)} for item in report.files],
        "findings": {
            kind.value: {"wrong": kind in WRONG, "count": problems.count, "shown": problems.shown}
            for kind, problems in report.found.items()
        },
    }


def _print(report: Report) -> None:
    for item in report.files:
        forms = ", ".join(f"{form} ({count:,})" for form, count in item.forms.most_common())
        typer.echo(f"{item.file}: {counted(item.rows, 'row')}{f' as {forms}' if forms else ''}")
    for kind, problems in report.found.items():
        if problems.count:
            weight = "wrong" if kind in WRONG else "hint"
            typer.echo(f"\n{kind} ({weight}, {problems.count:,}): {MEANINGS[kind]}")
            typer.echo("\n".join(f"  {line}" for line in problems.text().splitlines()))
    if not (report.is_wrong or report.has_hints):
        typer.echo("nothing is wrong")
