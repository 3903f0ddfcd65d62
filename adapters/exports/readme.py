"""An export's README: what it is, the commands, and what each setting is for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...servers.auth import LOOPBACK
from ...servers.types import PLACE_KEY
from ...servers.version import package_version
from ...servers.wording import counted
from .facts import Facts


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the table."""

    name: str
    value: object
    without: str  # what happens without it


def serve_command(facts: Facts, *options: str, port: int | None = None) -> str:
    """How the environment is served where the export looks for it, if that is a gymwire server of this machine."""
    if not _is_here(facts):
        return f"# the server at {facts.root} must be running"
    host = () if facts.root.host in ("127.0.0.1", "localhost") else ("--host", str(facts.root.host))
    token = ("--token-file", "FILE") if facts.has_token else ()
    return " ".join(["gymwire serve", facts.name, *host, "--port", str(port or facts.root.port), *options, *token])


def _is_here(facts: Facts) -> bool:
    """Whether the server is one of this machine, with nothing in front."""
    return facts.root.host in LOOPBACK and facts.root.path in ("", "/")


def readme(
    title: str, facts: Facts, *, versions: str, commands: str, settings: Iterable[Setting], notes: Sequence[str] = ()
) -> str:
    """The README of an export. `commands` is shell text."""
    table = "\n".join(f"| `{item.name}` | `{item.value}` | {item.without} |" for item in settings)
    said = "".join(f"- {_line(note)}\n" for note in (*_notes(facts), *notes))
    return f"""\
# {title}

Written by `gymwire export` {package_version()} from {facts.url("nemo-gym")} \
({counted(facts.capacity, "session")} at once).
{_rows(facts)}Made for {versions}.

```sh
{commands.strip()}
```

| setting | value | what happens without it |
|---|---|---|
{table}

{said}"""


def _rows(facts: Facts) -> str:
    return f"{counted(len(facts.rows), 'row')}, from {_line(facts.rows_from)}. " if facts.rows else ""


def _line(text: str) -> str:
    """Names of models, files and splits may hold line feeds."""
    return " ".join(text.split())


def _notes(facts: Facts) -> list[str]:
    notes = []
    if any(PLACE_KEY in row for row in facts.rows):
        notes.append(
            "The rows name places of the server's own rows (`gymwire_row`) and hold no answers: they work with a "
            "server of the same split. Rows of a file (`gymwire export --rows FILE`) are whole, answers included."
        )
    if facts.info.has_end_turn:
        notes.append(
            "This environment asks several prompts in an episode (`end_turn`), which this stack does not know: "
            "an episode ends after the first."
        )
    return notes
