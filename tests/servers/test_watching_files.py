"""What documents, dashboards and alerts name is exported, under those labels."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from gymwire.servers.figures import SECONDS

from tests.servers.exported import exported, labels_of, table
from tests.servers.scrape import Scrape
from tests.serving import ROOT

METRICS = ROOT / "compose" / "metrics"
DASHBOARD = METRICS / "grafana" / "dashboards" / "gymwire.json"
#: What Prometheus adds to every series, and `Merger` to a process's.
ADDED = {"job", "instance", "worker", "le"}
GROUPED = re.compile(r"\b(?:by|on) \(([a-z_, ]*)\)")
SELECTOR = re.compile(r"\b([a-z_]+)\b(?:\{([^}]*)\})?(?=[\[\s)/>=+*]|$)")
MATCHER = re.compile(r'([a-z_]+)\s*(?:=~|!~|!=|=)\s*"')
SUFFIXES = ("_total", "_bucket", "_count", "_sum")


@pytest.fixture(scope="module")
def known() -> Mapping[str, set[str]]:
    """Every sample's name, and its labels."""
    read = asyncio.run(exported())
    return {name: set(series[0][0]) for name, series in read.values.items() if series}


def dashboard_expressions() -> Iterator[str]:
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((METRICS / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def figures_of(expression: str, known: Mapping[str, set[str]]) -> Iterator[tuple[str, set[str]]]:
    """The figures in an expression, with the labels that it matches them by."""
    for name, matchers in SELECTOR.findall(expression):
        if name.startswith(("gymwire_", "process_")):
            yield name, set(MATCHER.findall(matchers))


EXPRESSIONS = [*dashboard_expressions(), *(rule["expr"] for rule in rules())]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_names_what_there_is(expression: str, known: Mapping[str, set[str]]) -> None:
    found = dict(figures_of(expression, known))
    assert found or expression.startswith("up{"), expression
    grouped = {word.strip() for group in GROUPED.findall(expression) for word in group.split(",")} - {""}
    for name, matched in found.items():
        assert name in known, f"{name} is not exported"
        assert matched <= known[name] | ADDED, f"{name} has no label {matched - known[name]}"
        assert grouped <= known[name] | ADDED, f"{name} has no label {grouped - known[name]}"


def test_every_figure_of_ours_is_on_the_dashboard(known: Mapping[str, set[str]]) -> None:
    shown = {name for expression in dashboard_expressions() for name, _ in figures_of(expression, known)}
    families = {name.removesuffix("_bucket") for name in shown}
    ours = {name for name in known if name.startswith("gymwire_") and not name.endswith(SUFFIXES[1:])}
    ours |= {name.removesuffix("_bucket") for name in known if name.endswith("_bucket")}
    assert ours <= families, ours - families


def test_the_dashboard_is_whole() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    source = yaml.safe_load((METRICS / "grafana/provisioning/datasources/prometheus.yml").read_text())["datasources"][0]
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == source["uid"]
            assert target["expr"].count("(") == target["expr"].count(")")
    cells = [cell for panel in panels for cell in _cells(panel["gridPos"])]
    assert len(cells) == len(set(cells)), "two panels overlap"


def _cells(place: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    for x in range(place["x"], place["x"] + place["w"]):
        for y in range(place["y"], place["y"] + place["h"]):
            yield x, y


def test_alerts_say_what_they_mean() -> None:
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"] and rule["annotations"]["description"].endswith(".")


def test_the_scrape_config_asks_every_replica_with_the_token() -> None:
    config = yaml.safe_load((METRICS / "prometheus.yml").read_text())
    assert config["rule_files"] == ["alerts.yml"]
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    assert set(jobs) == {"gymwire", "gymwire-sandbox"}
    assert jobs["gymwire"]["dns_sd_configs"][0]["names"] == ["envs"]
    for job in jobs.values():
        assert job["authorization"] == {"credentials_file": "/run/gymwire/metrics/token"}


async def test_the_table_of_figures_is_that_of_the_code() -> None:
    """`python -m tests.servers.exported` prints it."""
    text = (ROOT / "docs" / "observability.md").read_text()
    written = text.partition("<!-- figures -->\n")[2].partition("\n<!-- /figures -->")[0]
    assert written == table(await exported())


async def test_a_latencys_buckets_are_those_that_the_document_names() -> None:
    read: Scrape = await exported()
    assert labels_of(read, "gymwire_call_seconds") and (SECONDS[0], SECONDS[-1]) == (0.0001, 60.0)
    assert "from 0.1 ms to 60 s" in (ROOT / "docs" / "observability.md").read_text()
