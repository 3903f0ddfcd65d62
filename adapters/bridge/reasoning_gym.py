"""`--from reasoning-gym FAMILY[,FAMILY…]`: the procedural tasks of reasoning-gym, scored by its own scorers.

`all` stands for every family. A row is a family and a seed; `--set size=4096` serves so many, and a quarter of them for
eval; `--set config='{"min_terms": 2}'` configures the families that know these fields. The policy answers in its last
message, between <answer> and </answer>. There are no tools.

Scorers parse what a policy wrote, some with a computer algebra system: they run in a process that is killed past its
limit. There the expected answer is scored as well: where that fails too, the fault is ours, else it is the policy's.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from importlib.util import find_spec
from math import isfinite
from random import Random
from typing import Any, ClassVar

from ...servers.environment import DefinitionError, Environment
from ...servers.failures import SessionFailure
from ...servers.policies import Script
from ...servers.types import FailureKind, Json, Row, RowError, Transcript
from .lines import LineProcess, Silent

SIZE = 512
#: Of the training rows, for eval.
EVAL_SHARE = 4
SYSTEM = "Solve the task. Write your final answer, and nothing else, between <answer> and </answer>."
SCORER = f"{__package__}.reasoning_gym_scorer"
#: Seconds that one scoring may take, and that the process may take to start.
SCORE_S, START_S = 8.0, 30.0
#: Of one answer that breaks the scorer, before the expected one is tried in its place.
ATTEMPTS = 2
PROCESSES = max(1, min(4, os.cpu_count() or 1))
#: Families without tasks of their own.
NO_FAMILY = frozenset({"composite"})


def environment(target: str) -> type[Environment]:
    """The environment of some families. Raises `DefinitionError`."""
    if find_spec("reasoning_gym") is None:
        raise DefinitionError("--from reasoning-gym needs the extra: pip install 'gymwire[reasoning-gym]'")
    from reasoning_gym.factory import DATASETS

    known = sorted(set(DATASETS) - NO_FAMILY)
    families = known if target == "all" else [name.strip() for name in target.split(",")]
    for name in families:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise DefinitionError(f"reasoning-gym has no family {name!r}.{hint} It has: {', '.join(known)}")
    name = families[0] if len(families) == 1 else "reasoning_gym"
    about = f"reasoning-gym: {', '.join(families) if len(families) < 9 else f'{len(families)} families'}."
    return type("Reasoning", (Reasoning,), {"__doc__": about, "name": name, "families": tuple(families)})


class Reasoning(Environment):
    """Base of what `environment` makes."""

    splits = ("train", "eval")
    families: ClassVar[tuple[str, ...]] = ()
    scorer: ClassVar[Scorer]

    def __init__(self, size: int = SIZE, config: Json | None = None) -> None:
        """size: how many training rows there are. config: fields of the families' configurations."""
        self._config = config or {}

    @classmethod
    async def setup(cls, **settings: Any) -> None:
        cls.scorer = Scorer()

    @classmethod
    async def teardown(cls) -> None:
        await cls.scorer.close()

    @classmethod
    def rows(
        cls, split: str, count: int | None, seed: int, size: int = SIZE, config: Json | None = None
    ) -> Iterator[Row]:
        """Train draws even seeds and eval odd ones, so no task is in both."""
        rng = Random(f"{split}:{seed}")
        own = size if split == "train" else max(1, size // EVAL_SHARE)
        for index in range(own if count is None else count):
            family = cls.families[index % len(cls.families)]
            drawn = 2 * rng.randrange(1 << 28) + (split != "train")
            question = entry(family, drawn, config or {})["question"]
            prompt = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
            yield Row(prompt=prompt, tools=(), data={"family": family, "task_seed": drawn})

    def reset(self, row: Row) -> None:
        family, seed = row.data.get("family"), row.data.get("task_seed")
        if family not in self.families or not isinstance(seed, int):
            raise RowError(f"a row names a `family` that is served ({', '.join(self.families)}) and its `task_seed`")
        self._task = {"family": family, "seed": seed, "config": self._config}

    async def verify(self, transcript: Transcript) -> float:
        return await self.scorer.score({**self._task, "answer": answer_of(transcript.answer)})


def entry(family: str, seed: int, config: Json) -> Json:
    """The task of a seed: question, answer, metadata."""
    return dataset(family, seed, config)[0]


def dataset(family: str, seed: int, config: Json) -> Any:
    """A data set of the one task. Fields of `config` that the family does not know are left out."""
    import reasoning_gym
    from reasoning_gym.factory import DATASETS

    fields = DATASETS[family][1].__dataclass_fields__
    known = {key: value for key, value in config.items() if key in fields}
    return reasoning_gym.create_dataset(family, **{**known, "seed": seed, "size": 1})


def answer_of(text: str) -> str:
    """What stands in the last complete <answer>, else the whole text."""
    before, opened, rest = text.rpartition("<answer>")
    if opened and "</answer>" in rest:
        return rest.partition("</answer>")[0].strip()
    if opened and "</answer>" in before:  # the last one is not closed
        return answer_of(before)
    return text.strip()


def oracle(row: Row, rng: Random) -> Script:
    """Knows the expected answer."""
    yield from ()
    return f"<answer>{entry(row.data['family'], row.data['task_seed'], {})['answer']}</answer>"


Reasoning.policies = {"oracle": oracle}


class Scorer:
    """Scores answers in processes of its own: a few, each with one answer at a time, started as they are needed."""

    def __init__(self) -> None:
        self._free: list[LineProcess] = []
        self._places = asyncio.Semaphore(PROCESSES)

    async def score(self, task: Json) -> float:
        """A finite number. Raises `SessionFailure` where even the expected answer cannot be scored."""
        async with self._places:
            for _ in range(ATTEMPTS):  # a process that is killed from outside says nothing of the answer
                with suppress(Silent, SessionFailure):
                    return await self._asked(task)
            await self._control(task)
            return 0.0  # the expected answer is scored: it is this one that breaks the scorer, each time

    async def _control(self, task: Json) -> None:
        try:
            score = await self._asked({**task, "answer": None})
        except (Silent, SessionFailure) as error:
            raise SessionFailure(f"{task['family']}: {error}", FailureKind.VERIFIER_ERROR) from None
        if score <= 0:
            raise SessionFailure(f"{task['family']} scores its own answer {score}", FailureKind.VERIFIER_ERROR)

    async def _asked(self, task: Json) -> float:
        process = self._free.pop() if self._free else await self._started()
        answer = await process.ask(task, SCORE_S)
        self._free.append(process)
        if "score" not in answer:
            raise SessionFailure(str(answer.get("error")), FailureKind.VERIFIER_ERROR)
        if not isfinite(answer["score"]):
            raise SessionFailure(f"it scores {answer['score']}", FailureKind.VERIFIER_ERROR)
        return answer["score"]

    async def _started(self) -> LineProcess:
        process = await LineProcess.start([sys.executable, "-P", "-m", SCORER])
        await process.ask({}, START_S)
        return process

    async def close(self) -> None:
        while self._free:
            await self._free.pop().close()
