"""Rollouts beside the raw engine, in pairs.

A pair is a rollout of all sessions, and right after it the raw engine: a bare loop of `add_request` and `step` on the
same vLLM engine, given every request of the rollout (the same prompt ids, sampling parameters and seeds, in the order
in which they were asked) at once, without sessions, tools or an event loop, so that its batch is full to the end. The
prefix cache is emptied before each of the two. Both count the sampled tokens of all turns, which must be equal, over
the time from the first request to the last answer (the rollout's begins with the first seed and ends with the last
session closed). So the raw engine is the upper bound for these tokens on this engine.

gymwire's own work is this process's CPU time, of all threads, outside the calls into the engine: sessions, templates,
parsing, asyncio, and where the environment runs in this process, the environment too.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from accelerate import Accelerator
from gymwire.adapters import Connection, connect
from gymwire.trainer.config import Failures, Rollout
from gymwire.trainer.engine import Engine, LLMEngine
from gymwire.trainer.policy import save
from gymwire.trainer.rollout import Player, Seat, Trace
from gymwire.trainer.rows import RowBook
from gymwire.trainer.sampling import EnginePolicy
from gymwire.trainer.tokens import ChatTemplate, Dialogue
from gymwire.trainer.vllm_cpu import CpuVLLMGeneration
from transformers import AutoModelForCausalLM

from .chain import make_chain
from .slow_tools import ROWS, TURNS, SlowTools

IN_FLIGHT, MAX_NUM_SEQS, CONTEXT = 64, 32, 512
WARM_SESSIONS = 32


@dataclass(frozen=True, slots=True)
class Pass:
    """All tokens once; `engine_cpu_s` is the part of `cpu_s` inside the engine."""

    tokens: int
    turns: int
    steps: int
    wall_s: float
    cpu_s: float
    engine_cpu_s: float


@dataclass(slots=True)
class Metered:
    """vLLM's engine with a clock: what it was asked, and the CPU time of this process inside of it."""

    engine: LLMEngine
    cpu_s: float = 0.0
    asked: list[tuple[Any, Any]] = field(default_factory=list)

    def add_request(self, request_id: str, prompt: Any, params: Any) -> Any:
        self.asked.append((prompt, params))
        return self._timed(lambda: self.engine.add_request(request_id, prompt, params))

    def abort_request(self, request_ids: list[str]) -> None:
        self._timed(lambda: self.engine.abort_request(request_ids))

    def has_unfinished_requests(self) -> bool:
        return self.engine.has_unfinished_requests()

    def step(self) -> list[Any]:
        return self._timed(self.engine.step)

    def _timed(self, action: Callable[[], Any]) -> Any:
        before = time.process_time()
        try:
            return action()
        finally:
            self.cpu_s += time.process_time() - before


class Stopwatch:
    """Wall and CPU seconds since it was made."""

    def __init__(self) -> None:
        self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._wall_s, time.process_time() - self._cpu_s


class Bench:
    """The engine as TRL is given it, with the real player and parser in front of it or with nothing."""

    def __init__(self, folder: Path) -> None:
        model, tokenizer, self.turn_tokens = make_chain()
        save(model, tokenizer, folder)
        self.template = ChatTemplate(tokenizer)
        self.llm = CpuVLLMGeneration(
            AutoModelForCausalLM.from_pretrained(folder),
            Accelerator(cpu=True),
            tokenizer,
            max_model_length=CONTEXT,
            max_num_seqs=MAX_NUM_SEQS,
        ).llm

    async def pair(self, connection: Connection, sessions: int) -> dict[str, Any]:
        gc.collect()
        rollout, asked = await self.rollout(connection, sessions)
        raw = self.raw(asked)
        if raw.tokens != rollout.tokens:
            raise RuntimeError(f"the raw engine sampled {raw.tokens} tokens, the rollout {rollout.tokens}")
        return {"wire": connection.wire, "sessions": sessions, "rollout": asdict(rollout), "raw": asdict(raw)}

    async def rollout(self, connection: Connection, sessions: int) -> tuple[Pass, list[tuple[Any, Any]]]:
        metered = Metered(self.llm.llm_engine)
        engine = Engine(metered, CONTEXT)
        player = Player(self._seat(connection), EnginePolicy(engine, self.template.stop_token_ids), IN_FLIGHT)
        book = RowBook.of_split("train", ROWS)
        episodes = [book.episode(name) for name in book.names[:sessions]]
        self.llm.reset_prefix_cache()
        watch = Stopwatch()
        traces = await player.play_all(episodes)
        wall_s, cpu_s = watch.read()
        self._check(traces)
        counts = engine.counts
        return Pass(counts.tokens, len(metered.asked), counts.steps, wall_s, cpu_s, metered.cpu_s), metered.asked

    def _seat(self, connection: Connection) -> Seat:
        limits = Rollout(max_turn_tokens=self.turn_tokens, max_tokens=CONTEXT)
        limit = partial(self.template.limit, max_tokens=limits.max_result_tokens)
        return Seat(connection, partial(Dialogue, self.template), limits, Failures(), limit, context=CONTEXT)

    def _check(self, traces: Sequence[Trace]) -> None:
        """All of it really happened: every turn with its tokens and its call, and a verdict."""
        for trace in traces:
            sampled = [turn.sampled for turn in trace.sampled_turns]
            if trace.reward != 1.0 or trace.calls != TURNS or sampled != [self.turn_tokens] * TURNS:
                raise RuntimeError(f"{trace.episode.id}: {sampled} tokens, {trace.calls} calls, {trace.failure}")

    def raw(self, asked: Sequence[tuple[Any, Any]]) -> Pass:
        engine = self.llm.llm_engine
        self.llm.reset_prefix_cache()
        watch, tokens, steps = Stopwatch(), 0, 0
        for number, (prompt, params) in enumerate(asked):
            engine.add_request(f"raw-{number}", prompt, params)
        while engine.has_unfinished_requests():
            steps += 1
            tokens += sum(len(output.outputs[0].token_ids) for output in engine.step() if output.finished)
        wall_s, cpu_s = watch.read()
        return Pass(tokens, len(asked), steps, wall_s, cpu_s, cpu_s)


async def measure(sessions: int, pairs: int, urls: Sequence[str]) -> list[dict[str, Any]]:
    with TemporaryDirectory(prefix="gymwire-") as folder:
        bench = Bench(Path(folder))
        targets = [(SlowTools, pairs), *((url, 1) for url in urls)]
        measured = []
        for target, count in targets:
            async with connect(target) as connection:
                await bench.rollout(connection, WARM_SESSIONS)
                measured += [await bench.pair(connection, sessions) for _ in range(count)]
    return measured
