"""An export's README: what it is, the commands, and what each setting is for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...servers.types import PLACE_KEY
from ...servers.version import package_version
from .facts import Facts


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the table."""

    name: str
    value: object
    without: str  # what happens without it


def readme(
    title: str, facts: Facts, *, versions: str, commands: str, settings: Iterable[Setting], notes: Sequence[str] = ()
) -> str:
    """The README of an export. `commands` is shell text."""
    table = "\n".join(f"| `{item.name}` | `{item.value}` | {item.without} |" for item in settings)
    said = "".join(f"- {note}\n" for note in (*_notes(facts), *notes))
    return f"""\
# {title}

Written by `gymwire export` {package_version()} from {facts.url("nemo-gym")} ({facts.capacity} sessions at once).
{_rows(facts)}Made for {versions}.

```sh
{commands.strip()}
```

| setting | value | what happens without it |
|---|---|---|
{table}

{said}"""


def _rows(facts: Facts) -> str:
    return f"{len(facts.rows)} rows, from {facts.rows_from}. " if facts.rows else ""


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
