"""Words that several commands and reports say in the same way."""

from __future__ import annotations


def counted(number: float, what: str) -> str:
    """`1 row`, `2 rows`, `1,024 passes`."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    many = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{shown} {what if number == 1 else many}"
