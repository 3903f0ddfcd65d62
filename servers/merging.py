"""One text of `/metrics` for several workers behind one port: what a scrape of any one of them would not tell.

Whoever answers `/metrics` for all keeps one `Merger` and gives it every worker's own text. Figures are summed; what is
about a process itself (`process_...`) stays apart, under the label `worker`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from .figures import text_of
from .metrics import STORE_SLOTS

#: Types whose values only grow: what a worker has counted stays counted when it has ended.
CUMULATIVE = frozenset(("counter", "histogram"))
#: Alike in every worker.
SAME = frozenset(("gymwire_build_info", *STORE_SLOTS))
OWN_PREFIX = "process_"
BORN = "process_start_time_seconds"
Labels = tuple[tuple[str, str], ...]


@dataclass
class _Family:
    kind: str
    about: str
    #: By sample name and labels, in the order of the first text, as a histogram's buckets must stand.
    values: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def add(self, other: _Family, *, same: bool) -> None:
        for key, value in other.values.items():
            self.values[key] = value if same else self.values.get(key, 0.0) + value


Families = dict[str, _Family]


class Merger:
    """Remembers what each worker counted last, so that a sum never goes back when one ends, is replaced, or does not
    answer a scrape: a figure that goes back reads as a restart, and as a burst."""

    def __init__(self) -> None:
        self._last: dict[str, Families] = {}
        self._ended: Families = {}

    def text(self, texts: Mapping[str, bytes]) -> bytes:
        """The text of all, from those of the workers that answered, by their names."""
        for worker, text in texts.items():
            families = _read(text)
            before = self._last.get(worker)
            if before is not None and _born(before) != _born(families):
                _add(self._ended, _cumulative(before))
            self._last[worker] = families
        total: Families = {}
        _add(total, self._ended)
        for worker, families in self._last.items():
            shared = families if worker in texts else _cumulative(families)
            _add(total, {name: family for name, family in shared.items() if not name.startswith(OWN_PREFIX)})
            if worker in texts:
                _add(total, _labelled(families, worker))
        return text_of(_Merged(total))


def _read(text: bytes) -> Families:
    families: Families = {}
    for metric in text_string_to_metric_families(text.decode()):
        values = {(item.name, tuple(sorted(item.labels.items()))): item.value for item in metric.samples}
        families[metric.name] = _Family(metric.type, metric.documentation, values)
    return families


def _born(families: Families) -> float:
    family = families.get(BORN)
    return next(iter(family.values.values()), 0.0) if family else 0.0


def _cumulative(families: Families) -> Families:
    return {
        name: family
        for name, family in families.items()
        if family.kind in CUMULATIVE and not name.startswith(OWN_PREFIX)
    }


def _labelled(families: Families, worker: str) -> Families:
    """What is about the process itself, marked with the worker's name."""
    own: Families = {}
    for name, family in families.items():
        if name.startswith(OWN_PREFIX):
            values = {
                (sample, (*labels, ("worker", worker))): value for (sample, labels), value in family.values.items()
            }
            own[name] = _Family(family.kind, family.about, values)
    return own


def _add(total: Families, families: Families) -> None:
    for name, family in families.items():
        known = total.setdefault(name, _Family(family.kind, family.about))
        known.add(family, same=name in SAME)


class _Merged(Collector):
    def __init__(self, families: Families) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for name, family in self._families.items():
            metric = Metric(name, family.about, family.kind)
            for (sample, labels), value in _in_order(family.values.items()):
                metric.add_sample(sample, dict(labels), value)
            yield metric


def _in_order(samples: Iterable[tuple[tuple[str, Labels], float]]) -> list[tuple[tuple[str, Labels], float]]:
    """Samples of one series beside each other, as the format asks for; buckets keep their order."""
    return sorted(samples, key=lambda item: [pair for pair in item[0][1] if pair[0] != "le"])
