"""What `gymwire eval` makes of its results: groups, the exit status, two runs side by side, and the arithmetic."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from statistics import stdev

import pytest
from gymwire.adapters.evaluation.statistics import Mean, clustered_mean, mean_of, paired, passed
from gymwire.servers import Row
from gymwire.servers.types import Json
from typer.testing import Result

from tests.adapters.chat_endpoint import Turn, chat_endpoint
from tests.adapters.evaluating import evaluate, summary

BREAK = Turn(status=500, body="oops")


def rows_file(file: Path, targets: Sequence[int], **more: Sequence[object]) -> Path:
    """Rows of counter that begin at their target, so that an answer alone solves them; but those of target 9."""
    columns = [{name: values[place] for name, values in more.items()} for place in range(len(targets))]
    rows = [
        Row.of(f"Task {target}.", start=target if target != 9 else 0, target=target, **column)
        for target, column in zip(targets, columns, strict=True)
    ]
    file.write_text("".join(json.dumps(row.to_json()) + "\n" for row in rows))
    return file


def run(file: Path, *options: str, broken: str = "") -> Result:
    """Every row is answered at once, but one whose prompt is `broken`."""

    def say(body: Json, number: int) -> Turn:
        return BREAK if body["messages"][-1]["content"] == broken else Turn("Done.")

    with chat_endpoint(say) as endpoint:
        options = ("--rows", str(file), "--retries", "0", "--max-failed", "1", *options)
        return evaluate("counter", endpoint.url, *options)


# ---- groups


def test_groups_have_means_errors_and_masked_rows_of_their_own(tmp_path: Path) -> None:
    levels = [{"of": "easy"}, {"of": "easy"}, {"of": "hard"}, {"of": "hard"}, {"of": ["odd", 1]}, {}]
    file = rows_file(tmp_path / "rows", [1, 2, 3, 9, 4, 5], level=levels)
    done = run(file, "--by", "level.of", "--json", broken="Task 2.")
    groups = summary(done)["groups"]
    counts = {name: (part["episodes"], part["masked"]) for name, part in groups.items()}
    assert counts == {"easy": (1, 1), "hard": (2, 0), '["odd", 1]': (1, 0), "(none)": (1, 0)}
    solved, half = groups["easy"]["mean"], groups["hard"]["mean"]
    assert solved > half and groups["hard"]["standard_error"] == pytest.approx(solved - half)
    shown = run(file, "--by", "level.of", broken="Task 2.").stdout
    assert "group" in shown and "hard" in shown and f"{half:.4f}" in shown


def test_groups_that_are_numbers_are_in_their_order(tmp_path: Path) -> None:
    file = rows_file(tmp_path / "rows", [1] * 6, level=[10, 9, "hard", 2.5, "nan", -1])
    assert list(summary(run(file, "--by", "level", "--json"))["groups"]) == ["-1", "2.5", "9", "10", "hard", "nan"]


def test_groups_are_drawn_in_the_report_and_do_not_write_into_the_terminal(tmp_path: Path) -> None:
    file = rows_file(tmp_path / "rows", [1, 9], level=["\x1b[31m\u202e<script>", "hard"])
    shown = run(file, "--by", "level", "--out", str(tmp_path / "run")).stdout
    assert " [31m <script>" in shown and "\x1b" not in shown and "\u202e" not in shown
    text = (tmp_path / "run" / "report.html").read_text()
    assert 'aria-label="Rewards of the groups"' in text and "&lt;script&gt;: 1</title>" in text
    assert text.count("<script>") == 1


@pytest.mark.parametrize(
    ("target", "options", "sentence"),
    [
        ("rows", ("--by", "colour"), "no row has a column 'colour'; the columns are: level, start, target."),
        ("rows", ("--by", "level.colour"), "no row has a column 'level.colour'"),
        ("server", ("--by", "level"), "--by needs the rows themselves, which stay on a server"),
    ],
)
def test_a_column_that_is_not_there_is_one_sentence(
    target: str, options: tuple[str, ...], sentence: str, server: str, tmp_path: Path
) -> None:
    file = rows_file(tmp_path / "rows", [1], level=[{}])
    where = ("counter", "--rows", str(file)) if target == "rows" else (f"{server}/counter", "-n", "1")
    done = evaluate(where[0], "http://127.0.0.1:9/v1", *where[1:], *options)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1) and sentence in done.stderr


# ---- the exit status


def test_the_status_says_whether_the_mean_was_reached(tmp_path: Path) -> None:
    file = rows_file(tmp_path / "rows", [1, 2, 9])
    mean = summary(run(file, "--json"))["reward"]["mean"]
    asked = {f"{mean}": 0, f"{mean - 0.01}": 0, f"{mean + 0.01}": 1, "nan": 1}
    assert {text: run(file, "--fail-under", text).exit_code for text in asked} == asked


def test_masked_episodes_neither_pass_nor_lower_the_mean(tmp_path: Path) -> None:
    file = rows_file(tmp_path / "rows", [1, 2])
    whole = summary(run(file, "--json"))["reward"]["mean"]
    assert run(file, "--fail-under", f"{whole}", broken="Task 2.").exit_code == 0
    assert run(file, "--fail-under", f"{whole}", "--max-failed", "0.4", broken="Task 2.").exit_code == 3
    none = run(rows_file(tmp_path / "rows", [2]), "--fail-under", "-100", broken="Task 2.")
    assert none.exit_code == 1 and "none" in none.stdout


def test_a_masked_kind_has_a_reason_that_names_the_endpoint(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        origin = f"http://127.0.0.1:{closed.getsockname()[1]}"
    file, options = rows_file(tmp_path / "rows", [1, 2]), ("--retries", "0", "--out", str(tmp_path / "run"))
    nobody = evaluate("counter", f"{origin}/v1", "--rows", str(file), *options)
    said = f"no connection to {origin}: Connection refused (after 0 repeats)"
    assert " ".join(said.split()) in " ".join(nobody.stdout.split()), nobody.stdout
    assert said in (tmp_path / "run" / "report.html").read_text()
    oops = Turn(status=500, body="oops \x1b[31m")
    with chat_endpoint(lambda body, number: oops) as endpoint:
        found = summary(evaluate("counter", endpoint.url, "-n", "1", "--retries", "0", "--json"))
    origin = endpoint.url.removesuffix("/v1")
    assert found["masked_because"] == {
        "agent_request_failed at model": f"{origin} answers HTTP 500: oops  [31m (after 0 repeats)"
    }


# ---- when there is no hope

BEGUN = Row.of("Task.", start=1, target=1).to_json()
NO_PROMPT = {"responses_create_params": {"input": []}, "start": 0, "target": 1}
UNFIT = {**BEGUN, "start": "x"}


@pytest.mark.parametrize("cannot", [NO_PROMPT, UNFIT])
def test_rows_that_cannot_begin_are_masked_while_others_may(cannot: Json, tmp_path: Path) -> None:
    file = tmp_path / "rows"
    file.write_text("".join(json.dumps(row) + "\n" for row in [cannot] * 5 + [BEGUN]))
    found = summary(run(file, "-c", "1", "--json"))
    assert (found["episodes"]["masked"], found["reward"]) == (
        5, {"mean": 1.0, "standard_error": None, "episodes": 1, "rows": 1}
    )  # fmt: skip
    none = run(file, "-n", "5", "-k", "3", "--out", str(tmp_path / "run"))
    assert none.exit_code == 2 and "nothing can be played: " in none.stderr
    assert len((tmp_path / "run" / "results.jsonl").read_text().splitlines()) == 4, "each row was tried once"


def test_a_run_that_was_answered_before_has_hope(tmp_path: Path) -> None:
    """It goes on with nothing but rows that the endpoint refuses."""
    file, out = rows_file(tmp_path / "rows", [1, 2, 3, 4]), tmp_path / "run"
    with chat_endpoint(
        lambda body, number: Turn("Done.") if number == 0 else Turn(status=400, body="a picture")
    ) as one:
        options = ("--rows", str(file), "-c", "1", "--out", str(out), "--max-failed", "1", "--json")
        first = evaluate("counter", one.url, *options, "-n", "1")
        rest = summary(evaluate("counter", one.url, *options))
    assert first.exit_code == 0 and rest["episodes"] == {"planned": 4, "played": 4, "scored": 1, "masked": 3}


# ---- going on


def test_more_rows_may_come_behind_those_of_before_and_nowhere_else(tmp_path: Path) -> None:
    file, out = tmp_path / "rows", ("--out", str(tmp_path / "run"))
    asked = [([1, 2], "1"), ([3, 4, 5], "1"), ([2, 1, 3], "1"), ([3, 4], "2"), ([1, 2, 3], "2")]
    with chat_endpoint(lambda body, number: Turn("Done.")) as endpoint:
        done = [
            evaluate("counter", endpoint.url, "--rows", str(rows_file(file, targets)), "-k", repeats, *out)
            for targets, repeats in asked
        ]
    assert [one.exit_code for one in done] == [0, 2, 2, 2, 0]
    assert all("was made with row_names" in one.stderr for one in done[1:4]) and "2 of 6 episodes" in done[4].stderr


@pytest.mark.parametrize("text", ["[]", "5", "{}", '{"settings": 5}', "{", ""])
def test_a_manifest_that_is_none_is_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    done = evaluate("counter", "http://127.0.0.1:9/v1", "-n", "1", "--out", str(tmp_path))
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1) and "manifest.json" in done.stderr


# ---- two runs


def compared(tmp_path: Path, first: Sequence[int], second: Sequence[int], broken: str = "") -> tuple[Json, str]:
    """A run of the second rows, compared with one of the first, in which a prompt was masked."""
    run(rows_file(tmp_path / "first", first), "--out", str(tmp_path / "run"), broken=broken)
    file = rows_file(tmp_path / "second", second)
    found = summary(run(file, "--compare", str(tmp_path / "run"), "--json"))["comparison"]
    shown = run(file, "--compare", str(tmp_path / "run" / "results.jsonl")).stdout
    return found, shown[shown.index("shared rows") :]


def test_runs_of_different_rows_share_nothing_and_say_so(tmp_path: Path) -> None:
    found, shown = compared(tmp_path, [1, 2, 9], [3, 4, 5])
    assert (found["paired"]["rows"], found["only_this"], found["only_other"]) == (0, 3, 3)
    assert found["paired"]["difference"] is None and found["changed"] == []
    assert "0  (3 only there, 3 only here)" in shown and "none" in shown


def test_rows_are_found_again_by_their_content(tmp_path: Path) -> None:
    """Shuffled, with one of them masked there and another one new here."""
    found, shown = compared(tmp_path, [1, 2, 9, 4], [9, 4, 1, 5], broken="Task 4.")
    assert (found["paired"]["rows"], found["paired"]["ties"]) == (2, 2)
    assert (found["only_this"], found["only_other"]) == (2, 1)
    assert "2  (1 only there, 2 only here)" in shown


def test_rows_that_look_alike_are_paired_by_their_place_or_not_at_all(tmp_path: Path) -> None:
    """One of three equal rows was masked: the others keep their places, and none takes its."""
    with chat_endpoint(lambda body, number: BREAK if number == 0 else Turn("Done.")) as endpoint:
        file, out = rows_file(tmp_path / "rows", [1, 1, 1]), tmp_path / "run"
        options = ("--rows", str(file), "-c", "1", "--retries", "0", "--max-failed", "1")
        evaluate("counter", endpoint.url, *options, "--out", str(out))
    same = summary(run(file, "--compare", str(out), "--json"))["comparison"]
    assert (same["paired"]["rows"], same["only_this"], same["only_other"]) == (2, 1, 0)
    moved = rows_file(tmp_path / "moved", [7, 8, 2, 1, 1])
    found = summary(run(moved, "--compare", str(out), "--json"))["comparison"]
    assert (found["paired"]["rows"], found["only_this"], found["only_other"]) == (0, 5, 2)


@pytest.mark.parametrize(
    "line", ["[1]", f'{{"row": 0, "repeat": 0, "reward": 1{"0" * 400}}}',
             '{"step": 1, "reward": 0.5}', '{"row": 0, "repeat": 0}', '{"row": 0, "repeat": 0, "reward": "1"}',
             '{"row": 0, "repeat": 0, "reward": NaN}', '{"row": 0, "repeat": true, "reward": 1}']
)  # fmt: skip
def test_a_file_of_something_else_is_named_by_its_line(line: str, tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text(line + "\n")
    done = evaluate("counter", "http://127.0.0.1:9/v1", "-n", "1", "--compare", str(tmp_path))
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "results.jsonl:1 is no line of an evaluation's results" in done.stderr


# ---- statistics


def test_statistics_against_independent_ones() -> None:
    flat = [0.1, 0.9, 0.4, 0.4]
    assert clustered_mean([[value] for value in flat]).standard_error == pytest.approx(stdev(flat) / sqrt(4))
    doubled = clustered_mean([[value, value] for value in flat])  # a repeat that tells nothing new
    assert doubled.standard_error == pytest.approx(stdev(flat) / sqrt(4))
    found = passed([[1, 0, 0], [1, 1, 1], [0, 0, 0]], 2, 1.0)  # pairs counted by hand: 2/3, 1, 0
    assert found.at == pytest.approx((2 / 3 + 1) / 3) and found.all == pytest.approx(1 / 3)
    both = paired({0: 0.0, 1: 1.0, 2: 0.0, 9: 1.0}, {0: 1.0, 1: 1.0, 2: 1.0})
    assert (both.rows, both.wins, both.losses, both.ties, both.sign_p) == (3, 2, 0, 1, 0.5)
    assert both.standard_error == pytest.approx(stdev([1.0, 0.0, 1.0]) / sqrt(3))


def test_rewards_that_are_hardly_finite_have_figures() -> None:
    most = sys.float_info.max
    assert clustered_mean([[most], [-most]]) == Mean(0.0, most, 2, 2)
    assert clustered_mean([[most, most], [most]]) == Mean(most, 0.0, 3, 2)
    assert (mean_of([5e-324, 5e-324]), mean_of([])) == (5e-324, None)
