"""`trajectories/step-NNNNN.jsonl`: a line for every episode that was played for a step, replaced and failed ones too.

`eval-NNNNN.jsonl` has those of the evaluation after a step (`mode` is "eval", `greedy` says how it was sampled); they
belong to no group. A line is an episode as the policy saw it (messages, ids, which of them were sampled,
log-probabilities), as the session saw it (`calls`: what was asked and answered, with a digest of the whole answer), and
what it was worth. Further processes of a run write files of their own, `step-NNNNN.pN.jsonl`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..adapters.lines import line_of, numbered
from ..servers.types import ToolResult
from .collect import Batch, Group
from .resilient import Step
from .rollout import Trace

Record = dict[str, Any]

FOLDER = "trajectories"
#: Characters of an answer that a line shows; what the policy saw of it is in the messages.
SHOWN = 2000
_NAME = re.compile(r"(step|eval)-(\d+)(?:\.p(\d+))?\.jsonl")


class Trajectories:
    """Writes one process's lines."""

    def __init__(self, run: Path, process: int = 0) -> None:
        self.folder, self.process = run / FOLDER, process

    def path(self, step: int, what: str = "step") -> Path:
        own = f".p{self.process}" if self.process else ""
        return self.folder / f"{what}-{step:05d}{own}.jsonl"

    def write(self, step: int, batch: Batch) -> None:
        """Append a batch to its step's file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.path(step).open("ab") as file:
            for record in records_of(batch):
                file.write(line_of(record))

    def write_evaluation(self, step: int, traces: Iterable[Trace]) -> None:
        """Write what an evaluation played, in place of an earlier one of that step."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path(step, "eval").write_bytes(b"".join(line_of(record_of(trace)) for trace in traces))

    def cut_back(self, step: int) -> None:
        """Forget this process's lines of later steps: a resumed run plays them again."""
        for path in files(self.folder.parent):
            if step_of(path) > step and path == self.path(step_of(path), _matched(path).group(1)):
                path.unlink()


def files(run: Path, step: int | None = None) -> list[Path]:
    """A run's files in the order of steps; those of one step. An evaluation comes after its step."""
    found = [path for path in (run / FOLDER).glob("*.jsonl") if _NAME.fullmatch(path.name)]
    return sorted((path for path in found if step is None or step_of(path) == step), key=_place)


def step_of(path: Path) -> int:
    return int(_matched(path).group(2))


def is_evaluation(path: Path) -> bool:
    return _matched(path).group(1) == "eval"


def _place(path: Path) -> tuple[int, bool, str]:
    return step_of(path), is_evaluation(path), path.name


def _matched(path: Path) -> re.Match[str]:
    matched = _NAME.fullmatch(path.name)
    assert matched is not None
    return matched


def read(path: Path) -> Iterator[Record]:
    """The lines of a file; one that a dying process left unfinished is no line."""
    return (record for _, record in numbered(path))


def records_of(batch: Batch) -> Iterator[Record]:
    kept = {id(group) for group in batch.groups}
    for number, group in enumerate(batch.played):
        for trace in group.traces:
            yield record_of(trace, group, number, replaced=id(group) not in kept)


def record_of(trace: Trace, group: Group | None = None, number: int | None = None, *, replaced: bool = False) -> Record:
    """One episode as plain data, of an evaluation without a group.

    `trained`: whether its sampled tokens are part of the update.
    """
    outcome, failure, name = trace.outcome, trace.failure, trace.episode.id
    return {
        "episode": str(name),
        "row": name.row,
        "seed": name.seed,
        "sample": name.sample,
        "attempt": name.attempt,
        "mode": "eval" if group is None else "train",
        "greedy": trace.episode.greedy,
        "group": number,
        "group_has_variance": group is not None and group.has_signal,
        "replaced": replaced,
        "trained": outcome is not None and group is not None and not group.dropped and not replaced,
        "reward": trace.reward,
        "components": {} if outcome is None else dict(outcome.components),
        "ending": "failed" if outcome is None else outcome.ending.value,
        "disagreements": [] if outcome is None else list(outcome.disagreements),
        "failure": None
        if failure is None
        else {"kind": failure.kind, "reason": failure.reason, "stage": failure.stage},
        "recovered": trace.recovered,
        "retried": trace.retried,
        "tool_errors": trace.tool_errors,
        "times": asdict(trace.times),
        "prompt": trace.prompt,
        "tools": trace.tools,
        "messages": trace.messages,
        "turns": [asdict(turn) for turn in trace.sampled_turns],
        "calls": [call_of(step) for step in trace.steps],
        "prompt_ids": trace.prompt_ids,
        "completion_ids": trace.completion_ids,
        "sampled": trace.sampled,
        "logprobs": trace.logprobs,
    }


def call_of(step: Step) -> Record:
    """A call with its answer; with `tool` empty, the end of a turn and the next prompt."""
    answer = step.answer
    if isinstance(answer, ToolResult):
        said = {"text": answer.text[:SHOWN], "is_error": answer.is_error, "done": answer.done}
    else:
        said = {"text": None if answer is None else answer[:SHOWN]}
    return {"tool": step.tool, "argument": step.argument, **said, "digest": answer_digest(answer)}


def answer_digest(answer: ToolResult | str | None) -> str:
    """Names an answer, pictures and sounds included."""
    plain: Any = asdict(answer) if isinstance(answer, ToolResult) else answer
    return sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def plain(batch: Batch) -> list[Record]:
    """A batch's lines as they would be read again."""
    return [json.loads(line_of(record)) for record in records_of(batch)]


def all_records(paths: Sequence[Path]) -> Iterator[Record]:
    """The lines of many files, each with the place where it stands."""
    for path in paths:
        for number, record in numbered(path):
            yield {**record, "place": f"{path.name}:{number}"}
