"""The parts of a report's page: sections, tables, folded blocks. Every text is escaped here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape


def section(name: str, title: str, content: str) -> str:
    """`content` is HTML."""
    return f'<section id="{name}"><h2>{title}</h2>{content}</section>'


def facts(shown: Mapping[str, str]) -> str:
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in shown.items())
    return f'<dl class="facts">{items}</dl>'


def nothing(text: str = "Nothing to show.") -> str:
    return f'<p class="soft">{escape(text)}</p>'


def folded_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return folded(title, table(heads, rows)) if rows else ""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def sample(said: str, kinds: Mapping[str, str], episodes: Sequence[str]) -> str:
    """Episodes with the choice of a kind of them; `kinds` are those that occur, `episodes` are HTML."""
    options = "".join(f'<option value="{escape(kind)}">{escape(name)}</option>' for kind, name in kinds.items())
    return (
        f'<p class="soft">{escape(said)}</p>'
        '<p class="filter" hidden><label for="filter">Show</label> '
        f'<select id="filter"><option value="">all of them</option>{options}</select> '
        '<span id="count" class="soft" role="status"></span></p>' + "".join(episodes)
    )


def folded(title: str, content: str) -> str:
    """`content` is HTML."""
    return f"<details><summary>{escape(title)}</summary><div>{content}</div></details>"
