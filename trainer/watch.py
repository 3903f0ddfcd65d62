"""What happens around TRL's steps: the step log, evaluations, checkpoints that a run can go on from, and stopping."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from .checkpoints import PROGRESS, Moment
from .clock import Clock
from .collect import Progress, Share
from .geometry import Geometry
from .loop import Interruption
from .manifest import Manifest
from .steplog import StepLog
from .terminal import Terminal

#: What TRL logs at the end of training, which belongs to no step.
SUMMARY = "train_runtime"
#: How transformers names the figures of an evaluation; trackers show them as eval/...
EVAL = "eval_"


class Watch(TrainerCallback):
    """One of TRL's callbacks. `record` and `consumed` are told of what each step plays."""

    def __init__(
        self,
        folder: Path,
        geometry: Geometry,
        progress: Progress,
        log: StepLog,
        manifest: Manifest,
        terminal: Terminal,
        interruption: Interruption,
        share: Share,
        evaluate: Callable[[], dict[str, float]] | None,
    ) -> None:
        self.folder, self.geometry, self.progress, self.log = folder, geometry, progress, log
        self.manifest, self.terminal, self.interruption, self.share = manifest, terminal, interruption, share
        self.evaluate = evaluate
        self.clock = Clock()
        self.trainer: Trainer | None = None
        self.moment = Moment.now(progress)
        self._figures: dict[str, float] = {}
        self._rows: list[str] = []
        self._evaluated: int | None = None

    def record(self, figures: Mapping[str, float], rows: list[str]) -> None:
        """Counts of what was played for the step that is being made; more of them add up."""
        for key, value in figures.items():
            self._figures[key] = self._figures.get(key, 0.0) + value
        self._rows += rows

    # ---- TRL's events

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.terminal.begin(state.global_step, state.max_steps)
        self.moment = Moment.now(self.progress)
        self._evaluated = self.share.gather(self._last_evaluation())[0]
        if state.global_step == 0 or state.global_step >= state.max_steps:
            self._evaluate(state)
        self.clock.split()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.moment = Moment.now(self.progress)
        asked = any(self.share.gather(self.interruption.asked is not None))
        wanted = args.eval_steps and args.eval_steps >= 1 and state.global_step % int(args.eval_steps) == 0
        # The last one, too, comes here: when training has ended, trackers are closed.
        if wanted or (control.should_training_stop and not asked):
            due = control.should_log
            self._evaluate(state)
            control.should_log = due  # the evaluation's own line is no line of the step
        if asked and self.geometry.is_boundary(state.global_step):
            control.should_save = control.should_training_stop = True
        if control.should_save:
            control.should_log = True
        for key, value in self.clock.split().items():
            self.record({key: value}, [])
        self._tell_trackers()
        self.terminal.advance(state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not state.is_world_process_zero or logs is None:
            return
        if SUMMARY in logs:
            self.manifest.content["summary"] = dict(logs)
            return
        line = {"step": state.global_step, **logs}
        if any(key.startswith(EVAL) for key in logs):
            line = {key.replace(EVAL, "eval/", 1) if key.startswith(EVAL) else key: line[key] for key in line}
            self.log.write(line)
            self.terminal.evaluation(line)
            return
        self.log.write({**line, **self._figures, "rows": self._rows})
        self.terminal.step({**line, **self._figures}, state.max_steps)
        self._figures, self._rows = {}, []

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self.moment.progress.save(self.folder / f"checkpoint-{state.global_step}" / PROGRESS)
            self.manifest.write(self.log.lines(), checkpoint=f"checkpoint-{state.global_step}")

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.terminal.end()

    # ---- details

    def _evaluate(self, state: TrainerState) -> None:
        if self.evaluate is None or self._evaluated == state.global_step:
            return
        self._evaluated = state.global_step
        with self.clock.timing("eval"):
            figures = self.evaluate()
        assert self.trainer is not None
        Trainer.log(self.trainer, {key.replace("eval/", EVAL, 1): value for key, value in figures.items()})

    def _last_evaluation(self) -> int | None:
        """The step whose evaluation the log has already."""
        return max((line["step"] for line in self.log.lines() if "eval/reward" in line), default=None)

    def _tell_trackers(self) -> None:
        """Our counts beside TRL's metrics: its own log averages them over the logged steps."""
        metrics = self.trainer._metrics["train"]  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
        for key, value in self._figures.items():
            metrics[key] = [value]
