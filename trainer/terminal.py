"""A run in the terminal: a bar, and a line for every logged step and evaluation; plain lines where there is no one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..servers.wording import counted

PARTS = ("decode", "tools", "wait", "verify", "train", "sync", "eval")


class Terminal:
    """Shows one process's run; the others stay silent."""

    def __init__(self, *, silent: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, quiet=silent, soft_wrap=True)
        columns = (
            TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        )  # fmt: skip
        self._bar = Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal)
        self._task = self._bar.add_task("steps", total=None)

    def begin(self, step: int, total: int) -> None:
        self._bar.update(self._task, completed=step, total=total)
        self._bar.start()

    def advance(self, step: int) -> None:
        self._bar.update(self._task, completed=step)

    def end(self) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    def step(self, line: Mapping[str, Any], total: int) -> None:
        self.say(step_line(line, total))

    def evaluation(self, line: Mapping[str, Any]) -> None:
        self.say(eval_line(line))


def step_line(line: Mapping[str, Any], total: int) -> str:
    """One step: what it earned, how much of it can be learned from, where its time went."""
    said = [f"step {line['step']}/{total}"]
    said += _number(line, "reward", "reward {:.3f}")
    if "sessions/total" in line:
        said.append(f"trainable {line['sessions/trainable']:.0f}/{line['sessions/total']:.0f}{_troubles(line)}")
    dull = line.get("groups/zero_variance", 0) + line.get("groups/no_signal", 0)
    if dull or line.get("groups/refilled"):
        said.append(f"no signal {dull:g}, refilled {line.get('groups/refilled', 0):g}")
    said += _number(line, "loss", "loss {:.4f}") + _number(line, "grad_norm", "grad {:.3f}")
    if "time/step_s" in line:
        parts = [(part, line.get(f"time/{part}_s") or 0.0) for part in PARTS]
        longest = sorted((pair for pair in parts if pair[1] >= 0.05), key=lambda pair: -pair[1])
        shares = ", ".join(f"{part} {seconds:.1f}" for part, seconds in longest)
        said.append(f"{line['time/step_s']:.1f} s" + (f" ({shares})" if shares else ""))
    return "  ".join(said)


def _troubles(line: Mapping[str, Any]) -> str:
    counted = [(name, line.get(f"sessions/{name}") or 0) for name in ("masked", "recovered", "retried")]
    said = ", ".join(f"{count:.0f} {name}" for name, count in counted if count)
    return f" ({said})" if said else ""


def _number(line: Mapping[str, Any], key: str, form: str) -> list[str]:
    value = line.get(key)
    return [form.format(value)] if isinstance(value, int | float) else []


def eval_line(line: Mapping[str, Any]) -> str:
    sampled = f"{line['eval/reward']:.3f} ± {line['eval/reward_se']:.3f}"
    greedy = f"{line['eval/greedy_reward']:.3f} ± {line['eval/greedy_reward_se']:.3f}"
    failed = f", {line['eval/failed']} failed" if line["eval/failed"] else ""
    rows = f"{counted(line['eval/rows'], 'row')}{failed}"
    return f"held out after step {line['step']}: {sampled} at temperature 1, {greedy} greedy, {rows}"
