"""The report: one page from the run folder's files alone, that reaches for nothing and shows what went wrong, too."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from gymwire.adapters import charts
from gymwire.trainer.collect import Batch, Collector, Drawing, Progress
from gymwire.trainer.config import Failures
from gymwire.trainer.episodes import chosen
from gymwire.trainer.evaluate import Evaluator
from gymwire.trainer.report import report_of, write_report
from gymwire.trainer.rollout import Trace
from gymwire.trainer.rows import Episode, RowBook
from gymwire.trainer.trajectories import Trajectories

from tests.serving import ROOT
from tests.trainer.scripted import call, playing
from tests.trainer.worlds import Frail

HOSTILE = "</pre><script>alert(1)</script><img src=https://elsewhere.example/x>"
VOID = {"meta", "br", "img"}


class Page(HTMLParser):
    """Tags that are well nested, their attributes, and ids that links name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def step(number: int, **more: Any) -> dict[str, Any]:
    times = {f"time/{part}_s": 0.5 for part in ("decode", "tools", "wait", "verify", "train", "sync", "eval")}
    figures = {"reward": 0.1 * number, "rewards/reward/std": 0.4, "sessions/trainable": 16.0, "sessions/total": 16.0}
    counts = {"sessions/masked": 1.0, "sessions/recovered": 2.0, "sessions/retried": 0.0, "groups/zero_variance": 1.0}
    return {"step": number, **figures, **counts, **times, "time/step_s": 3.5, "sessions/played": 16.0, **more}


def evaluation(number: int, reward: float) -> dict[str, Any]:
    greedy = {"eval/greedy_reward": reward + 0.1, "eval/greedy_reward_se": None}
    return {"step": number, "eval/reward": reward, "eval/reward_se": 0.03, **greedy, "eval/rows": 64, "eval/failed": 1}


async def played(apart: int) -> Batch:
    """Two groups whose samples add numbers that far `apart`, and a policy that says hostile things."""

    def say(episode: Any, turn: int, text: str) -> str:
        return call("add", n=1 + apart * episode.id.sample) if turn == 0 else HOSTILE

    book = RowBook.of_rows(list(Frail.rows("train", None, 0)))
    async with playing(Frail, say, max_retries=0, recover=0) as players:
        drawing = Drawing(book, Progress(), 1)
        return await Collector(players.player, drawing, Failures(stop_share=1.0), group_size=4).collect(2)


async def evaluated(value: int) -> list[Trace]:
    """Two held-out rows, sampled and greedily; the greedy ones add `value`, the others 5."""

    def say(episode: Episode, turn: int, text: str) -> str:
        return call("add", n=value if episode.greedy else 5) if turn == 0 else "Done."

    book = RowBook.of_rows(list(Frail.rows("train", 2, 0)))
    async with playing(Frail, say) as players:
        evaluator = Evaluator(players.player, book)
        await evaluator.evaluate()
    return evaluator.traces


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("run")
    entries = [evaluation(0, 0.1), step(1), step(2, reward=None), step(3), evaluation(3, 0.9)]
    (folder / "steps.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries) + '{"step": 4, "unf')
    failure = {
        "step": 2,
        "episode": "a:1:0:0",
        "stage": "call",
        "tool": "add",
        "kind": "session_lost",
        "reason": HOSTILE,
    }
    (folder / "failures.jsonl").write_text(json.dumps(failure) + "\n")
    (folder / "config.yaml").write_text("model:\n  path: policies/<tiny>\n")
    audit = [{"check": "context", "episodes": 8, "disagreements": [], "not_checked": {"no tokenizer": 3}}]
    environment = {"name": "counter <b>"}
    (folder / "manifest.json").write_text(
        json.dumps({"state": "finished", "environment": environment, "audit": audit, "versions": {"trl": "1.16.0"}})
    )
    Frail.heal()
    Frail.breaks[2] = 10**6
    batch = asyncio.run(played(1))
    Frail.heal()
    for number in (1, 2):
        Trajectories(folder).write(number, batch)
    Trajectories(folder).write(3, asyncio.run(played(0)))
    for number, value in ((0, 1), (3, 2)):
        Trajectories(folder).write_evaluation(number, asyncio.run(evaluated(value)))
    yield folder


def test_it_is_one_page_that_reaches_for_nothing(run: Path) -> None:
    text = report_of(run)
    page = Page(text)
    assert page.open == []
    for _, attributes in page.tags:
        assert not {"src", "srcset", "data", "poster"} & attributes.keys()
        assert (attributes.get("href") or "#").startswith("#")
    assert "@import" not in text
    assert "url(" not in text
    assert "default-src 'none'" in text
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not {"img", "link", "iframe"} & {tag for tag, _ in page.tags}


def test_it_can_be_read_without_seeing_it(run: Path) -> None:
    page = Page(report_of(run))
    assert all(attributes.get("aria-label") for tag, attributes in page.tags if tag == "svg")
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.tags:
        for named in (attributes.get("for"), (attributes.get("href") or "").removeprefix("#")):
            assert not named or named in ids
    assert ("html", {"lang": "en"}) in page.tags


def test_it_shows_curves_counts_failures_and_what_was_pinned(run: Path) -> None:
    text = report_of(run)
    labels = [attributes["aria-label"] for tag, attributes in Page(text).tags if tag == "svg"]
    assert labels == [
        "Reward of the sessions of each step",
        "Reward on held-out rows",
        "Masked, recovered and retried sessions",
        "Groups that teach nothing",
        "Seconds of each step by what they were spent on",
    ]
    for said in ("0.100 ± 0.030", "0.900 ± 0.030", "3 / 6 / 0", "policies/&lt;tiny&gt;", "1.16.0", "counter &lt;b&gt;"):
        assert said in text
    assert "3: no tokenizer" in text
    assert "failures (1)" in text
    assert 'class="band c0"' in text


def test_failed_and_dull_episodes_are_among_those_shown(run: Path) -> None:
    kinds = [
        (attributes.get("data-kinds") or "").split()
        for _, attributes in Page(report_of(run)).tags
        if attributes.get("class") == "episode"
    ]
    held_out = {"eval", "greedy", "solved", "unsolved"}
    assert {kind for several in kinds for kind in several} == {"failed", "best", "worst", "dull", *held_out}
    assert "the disk is full" in report_of(run)


def test_held_out_episodes_are_shown_beside_their_evaluation(run: Path) -> None:
    found = [(step, record) for step, record in chosen(run, []) if record["mode"] == "eval"]
    assert [(step, record["greedy"], record["reward"]) for step, record in found] == [
        (0, False, 5.0), (0, False, 5.0), (0, True, 1.0), (0, True, 1.0),
        (3, False, 5.0), (3, False, 5.0), (3, True, 2.0), (3, True, 2.0),
    ]  # fmt: skip
    assert "<summary>after step 3, " in report_of(run)
    assert "held out, below the best</span>" in report_of(run)


def test_a_run_that_barely_began_has_a_page(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"state": "failed", "reason": "ValueError: <no>"}))
    text = report_of(tmp_path)
    assert Page(text).open == []
    assert "failed: ValueError: &lt;no&gt;" in text
    assert "There are no trajectories" in text


def test_it_is_made_again_by_hand_without_the_stack(run: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "gymwire.trainer.report", str(run)],
        capture_output=True, text=True, cwd=ROOT, env=os.environ, timeout=60,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert (run / "report.html").read_text() == report_of(run)
    assert write_report(run) == run / "report.html"


# ---- charts


def _numbers(text: str, name: str) -> list[float]:
    return [float(found) for found in re.findall(rf' {name}="([-\d.]+)"', text)]


@pytest.mark.parametrize("steps", [[5], [1, 3, 5], list(range(1, 500)), [10, 20, 500]])
def test_bars_stay_inside_their_chart(steps: list[float]) -> None:
    parts = [charts.Stack("a", [1.0] * len(steps)), charts.Stack("b", [0.5] * len(steps))]
    drawn = charts.bars("title", steps, parts)
    rects = re.findall(r"<rect.*?>", drawn)
    assert 0 < len(rects) <= 2 * charts.BARS
    for rect in rects:
        left, width = _numbers(rect, "x")[0], _numbers(rect, "width")[0]
        assert left >= charts.LEFT - 1
        assert left + width <= charts.WIDTH - charts.RIGHT + 1
        assert 0 <= _numbers(rect, "y")[0] <= charts.HEIGHT - charts.BOTTOM


@pytest.mark.parametrize("values", [[0.0], [0.0, 0.0], [-1e-9, 1e9], [1.0, 1.0 + 1e-12], [-3.5, -3.0, 7.0]])
def test_lines_stay_inside_their_chart(values: list[float]) -> None:
    drawn = charts.lines("title", [charts.Line("a", [(step, value, 0.1) for step, value in enumerate(values)])])
    assert all(0 <= y <= charts.HEIGHT for y in _numbers(drawn, "cy"))
    assert drawn.count("<circle") == len(values)


def test_nothing_to_draw_is_no_chart() -> None:
    assert charts.lines("title", [charts.Line("a", [])]) == ""
    assert charts.bars("title", [1], [charts.Stack("a", [0.0])]) == ""
