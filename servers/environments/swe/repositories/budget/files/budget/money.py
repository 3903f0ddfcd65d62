"""Amounts as whole cents."""

import re

AMOUNT = re.compile(r"([+-]?)(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d{1,2}))?")


def parse(text):
    """Cents of a text such as 1,234.50; raises ValueError for anything else."""
    match = AMOUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not an amount: {text}")
    sign, whole, part = match.groups()
    cents = int(whole.replace(",", "")) * 100 + int((part or "0").ljust(2, "0"))
    return -cents if sign == "-" else cents


def show(cents):
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100:,}.{abs(cents) % 100:02}"
