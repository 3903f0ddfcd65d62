from __future__ import annotations

import re

from gymwire.servers.merging import Merger
from gymwire.servers.metrics import Metrics
from gymwire.servers.sessions import Sessions
from gymwire.servers.types import Failure

from tests.servers.scrape import Scrape, lint


def worker(failures: int, *, born: int = 1) -> bytes:
    """The text of a worker that has failed so many sessions."""
    sessions = Sessions()
    for _ in range(failures):
        sessions.metrics.failed("shop", Failure("shop:exception", "x", "call", "buy"))
        sessions.metrics.queued(0.2)
    text = sessions.metrics.text().decode()
    return re.sub(r"(?m)^process_start_time_seconds .*$", f"process_start_time_seconds {born}", text).encode()


def failures(read: Scrape) -> float:
    return read.get("gymwire_failures_total", environment="shop", kind="shop:exception", stage="call", tool="buy")


def test_figures_are_summed_and_what_is_a_process_stays_apart() -> None:
    text = Merger().text({"a": worker(2), "b": worker(3)})
    assert lint(text) == []
    read = Scrape.of(text)
    assert failures(read) == 5
    assert read.get("gymwire_slots") == 2 * 1024
    assert read.get("gymwire_build_info") == 1
    assert {labels["worker"] for labels, _ in read.values["process_open_fds"]} == {"a", "b"}
    buckets = read.values["gymwire_queue_seconds_bucket"]
    assert [labels["le"] for labels, _ in buckets] == sorted((item[0]["le"] for item in buckets), key=float)
    assert read.get("gymwire_queue_seconds_bucket", le="0.1") == 0
    assert read.get("gymwire_queue_seconds_bucket", le="0.25") == read.get("gymwire_queue_seconds_count") == 5


def test_what_a_worker_counted_stays_when_it_is_replaced() -> None:
    merger = Merger()
    merger.text({"a": worker(2, born=1), "b": worker(3)})
    read = Scrape.of(merger.text({"a": worker(1, born=9), "b": worker(3)}))
    assert failures(read) == 6
    read = Scrape.of(merger.text({"a": worker(4, born=9), "b": worker(3)}))
    assert failures(read) == 9


def test_a_worker_that_misses_a_scrape_takes_nothing_back() -> None:
    merger = Merger()
    merger.text({"a": worker(2), "b": worker(3)})
    read = Scrape.of(merger.text({"b": worker(4)}))
    assert failures(read) == 6 and read.get("gymwire_slots") == 1024
    assert {labels["worker"] for labels, _ in read.values["process_open_fds"]} == {"b"}
    assert failures(Scrape.of(merger.text({"a": worker(2), "b": worker(4)}))) == 6


def test_labels_of_any_text_come_through() -> None:
    metrics = Metrics()
    metrics.failed("shop", Failure('shop:a"b\\n\\', "x", "call"))
    read = Scrape.of(Merger().text({"a": metrics.text()}))
    assert read.get("gymwire_failures_total", kind='shop:a"b\\n\\') == 1


def test_nobody_is_an_empty_text() -> None:
    assert Merger().text({}) == b""
