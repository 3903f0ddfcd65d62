"""Versions such as 1.4.0 or 2.0.0-beta.2: three numbers, and for trial versions a tag of names and numbers."""

import re

VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.]+))?")


def parse(text):
    """((major, minor, patch), tag), the tag as a list of texts and numbers; raises ValueError."""
    match = VERSION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a version: {text}")
    tag = match[4].split(".") if match[4] else []
    return tuple(int(part) for part in match.groups()[:3]), [int(part) if part.isdigit() else part for part in tag]


def _key(text):
    numbers, tag = parse(text)
    parts = [(0, part, "") if isinstance(part, int) else (1, 0, part) for part in tag]
    return numbers, not tag, parts


def compare(first, second):
    """-1, 0 or 1. A trial version comes before its version; numbers in a tag before names."""
    one, other = _key(first), _key(second)
    return (one > other) - (one < other)


def bump(text, part):
    """The next major, minor or patch version, without a tag. The next patch of a trial version is its version."""
    (major, minor, patch), tag = parse(text)
    if part == "major":
        return f"{major + 1}.0.0"
    if part == "minor":
        return f"{major}.{minor + 1}.0"
    if part == "patch":
        return f"{major}.{minor}.{patch if tag else patch + 1}"
    raise ValueError(f"no part {part}: major, minor or patch")
