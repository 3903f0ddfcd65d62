"""gymwire's run, with the naive way to treat failures, and with what held-out episodes did. Needs the stack."""

from __future__ import annotations

from contextlib import ExitStack
from statistics import fmean

from gymwire.trainer.checks import Plan
from gymwire.trainer.config import Config
from gymwire.trainer.rollout import Policy
from gymwire.trainer.run import Run

from .players import FailedIsZero


def train(config: Config, plan: Plan, *, failed_is_zero: bool, policy: Policy | None = None) -> int:
    """Answers the exit status. With a `policy` of its own no engine is started, as in `gymwire.trainer.run`."""
    with ExitStack() as stack_:
        made = LearnRun(config, plan, False, policy, stack_)
        if failed_is_zero:
            player = made.collector.player
            made.collector.player = FailedIsZero(player.seat, player.policy, config.environment.max_concurrent)
        return made.train()


class LearnRun(Run):
    """The step log's evaluations also say how many lookups a held-out episode made, and which share had the code."""

    def _evaluate(self) -> dict[str, float]:
        figures = super()._evaluate()
        traces = [trace for trace in self.evaluator.traces if not trace.episode.greedy]
        lookups = fmean(sum(step.tool == "lookup" for step in trace.steps) for trace in traces)
        code = fmean(trace.outcome.components["code"] if trace.outcome else 0.0 for trace in traces)
        return {**figures, "eval/lookups": lookups, "eval/code": code}
