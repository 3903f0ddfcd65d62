"""The histogram of an evaluation's report draws whatever rewards there are."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from gymwire.adapters import charts

CASES = {
    "one": [0.5],
    "zero or one": [0.0, 1.0, 1.0],
    "thousands": [number / 5000 for number in range(5000)],
    "huge": [-1.7e308, 0.0, 1.7e308],
    "near": [1e20, 1e20 + 1e5],
    "not finite": [float("inf"), float("nan"), -3.0],
}


@pytest.mark.parametrize("values", CASES.values(), ids=CASES)
def test_every_finite_value_is_in_one_bar_inside_the_picture(values: list[float]) -> None:
    drawn = charts.histogram("Rewards", values, "<reward>")
    root = ElementTree.fromstring(f"<div>{drawn}</div>")
    counts = [int(found) for found in re.findall(r": (\d+)</title>", drawn)]
    assert sum(counts) == sum(abs(value) < float("inf") for value in values)
    for bar in root.iter("rect"):
        assert 0 <= float(bar.attrib["y"]) <= charts.HEIGHT
        assert 0 <= float(bar.attrib["x"]) + float(bar.attrib["width"]) <= charts.WIDTH


def test_nothing_is_drawn_of_masked_episodes_alone() -> None:
    assert charts.histogram("Rewards", [], "reward") == ""


def test_the_marks_of_how_many_are_whole() -> None:
    marks = re.findall(r'text-anchor="end">([^<]*)</text>', charts.histogram("Rewards", [0.0, 1.0, 1.0], "reward"))
    assert marks[:3] == ["0", "1", "2"]
