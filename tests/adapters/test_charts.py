"""The charts of an evaluation's report draw whatever rewards and groups there are."""

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


# ---- groups

GROUPS = {
    "one": [charts.Group("easy", 0.5, None)],
    "zero": [charts.Group("easy", 0.0, 0.0), charts.Group("hard", None, None)],
    "both sides": [charts.Group("<b>", -3.0, 1.5), charts.Group("a name that is far too long", 2.0, 0.1)],
    "near": [charts.Group("a", 1e20, 1e5), charts.Group("b", 1e-20, 1e-30)],
    "many": [charts.Group(f"{number}", number / 7, 0.2) for number in range(charts.GROUPS + 5)],
}


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
def test_every_group_has_a_name_and_a_bar_inside_the_picture(groups: list[charts.Group]) -> None:
    root = ElementTree.fromstring(f"<div>{charts.means('Groups', groups, '<reward>')}</div>")
    bars = list(root.iter("rect"))
    assert len(bars) == sum(group.mean is not None for group in groups[: charts.GROUPS])
    _, _, width, height = map(float, next(root.iter("svg")).attrib["viewBox"].split())
    for bar in bars:
        x, y, wide, high = (float(bar.attrib[name]) for name in ("x", "y", "width", "height"))
        assert charts.NAME_WIDTH <= x <= x + wide <= width and 0 <= y <= y + high <= height - charts.BOTTOM
    said = [text.text or "" for text in root.iter("text")]
    assert all(any(text[:10] == group.name[:10] for text in said) for group in groups[: charts.GROUPS])
    assert any(text.startswith("<reward>") for text in said)
    assert ("of 45 groups" in "".join(said)) == (len(groups) > charts.GROUPS)


@pytest.mark.parametrize("means", [[], [None], [1.7e308, -1.7e308]])
def test_nothing_is_drawn_of_groups_without_a_mean_or_a_scale(means: list[float | None]) -> None:
    assert charts.means("Groups", [charts.Group("a", mean, None) for mean in means], "reward") == ""
