"""Reading a `/metrics` text as Prometheus does, and looking at it as its linter would."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

NAME = re.compile(r"[a-z][a-z0-9_]*")
#: What `promtool check metrics` wants spelt out, and in these units.
WRONG_UNITS = re.compile(r"_(ms|millis|milliseconds|minutes|hours|kb|mb|percent)(_|$)")


@dataclass
class Scrape:
    """Every sample by name and labels, and every family's type and explanation."""

    values: dict[str, list[tuple[Mapping[str, str], float]]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    helps: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, text: bytes | str) -> Scrape:
        read = cls()
        for family in text_string_to_metric_families(text if isinstance(text, str) else text.decode()):
            assert family.name not in read.types, f"{family.name} stands there twice"
            read.types[family.name], read.helps[family.name] = family.type, family.documentation
            for sample in family.samples:
                read.values.setdefault(sample.name, []).append((sample.labels, sample.value))
        return read

    def get(self, name: str, **labels: str) -> float:
        """The sum of a sample's series with these labels."""
        series = self.values.get(name, [])
        return sum(value for found, value in series if labels.items() <= found.items())

    def series(self, name: str) -> int:
        return len(self.values.get(name, ()))


def lint(text: bytes) -> list[str]:
    """What `promtool check metrics` would say, as far as the text shows it."""
    read, problems = Scrape.of(text), []
    for name, kind in read.types.items():
        samples = f"{name}_total" if kind == "counter" else name
        if not NAME.fullmatch(name):
            problems.append(f"{name}: not in snake_case")
        if not read.helps[name] or not read.helps[name].endswith("."):
            problems.append(f"{name}: no sentence explains it")
        if kind == "unknown" or (kind == "counter") is not (f"# TYPE {samples} counter\n".encode() in text):
            problems.append(f"{name}: its type is {kind}")
        if WRONG_UNITS.search(name):
            problems.append(f"{name}: not in a base unit")
        if kind == "histogram" and not name.endswith(("_seconds", "_bytes")):
            problems.append(f"{name}: no unit")
        if kind != "counter" and name.endswith(("_total", "_count", "_sum", "_bucket")):
            problems.append(f"{name}: a suffix of another type")
    for name, series in read.values.items():
        seen = [tuple(sorted(labels.items())) for labels, _ in series]
        if len(seen) != len(set(seen)):
            problems.append(f"{name}: a series twice")
    return problems
