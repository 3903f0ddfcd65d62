"""List the installed environments, with their tools and splits."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table

from ..app import describe
from ..catalog import Served, find, installed
from ..environment import DefinitionError
from .options import errors


def list_environments(
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON, with every schema.")] = False,
) -> None:
    """List the installed environments, with their tools and splits."""
    described = []
    for name, target in installed().items():
        try:
            described.append({**describe(Served(find(name))), "class": target})
        except (DefinitionError, ImportError) as error:
            errors.print(f"gymwire: {name} ({target}) cannot be served: {error}", markup=False)
    if as_json:
        typer.echo(orjson.dumps(described, option=orjson.OPT_INDENT_2).decode())
        return
    table = Table("environment", "about", "tools", "splits", title_justify="left")
    for item in described:
        about = item["description"].partition("\n")[0]
        splits = ", ".join(f"{split} {count}" for split, count in item["splits"].items())
        table.add_row(item["name"], about, ", ".join(tool["name"] for tool in item["tools"]), splits or "-")
    Console().print(table)
