"""The colocated vLLM engine, driven from one event loop: requests of all sessions are batched as they come.

A request joins the running batch at the next step, so a session that waits for its tool holds nobody up. Steps run
on the loop's own thread, between them the loop serves whatever is ready. Requests are known by ids of our own. What
the engine raises ends every request that waits, and the engine for good: the run stops with its cause, none hangs.

The order of requests in a batch can move a logit by rounding, so equal seeds give equal tokens only where the batches
are equal too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from time import perf_counter
from typing import Any, Literal, Protocol, cast

FinishReason = Literal["stop", "length"]

#: How often other coroutines get a turn between two steps: an answer passes through several of them.
YIELDS = 3


class EngineFailed(RuntimeError):
    """The engine broke; nothing can be sampled any more. The cause is what it raised."""


class PromptTooLong(ValueError):
    """The prompt leaves no room for a token in the model's context."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A sampled turn. Log-probabilities are those the sampler drew with; the id that ended the turn is included."""

    ids: list[int]
    logprobs: list[float]
    finish_reason: FinishReason


class LLMEngine(Protocol):
    """What is used of vLLM's engine."""

    def add_request(self, request_id: str, prompt: Any, params: Any) -> Any: ...
    def abort_request(self, request_ids: list[str]) -> None: ...
    def has_unfinished_requests(self) -> bool: ...
    def step(self) -> list[Any]: ...


@dataclass(slots=True)
class Counts:
    """What the engine has done so far; `busy_s` is the time inside of it."""

    steps: int = 0
    tokens: int = 0
    busy_s: float = 0.0


class Engine:
    """Samples turns. One for each process, used from one event loop at a time."""

    def __init__(self, llm_engine: LLMEngine, max_model_len: int) -> None:
        self._llm = llm_engine
        self.max_model_len = max_model_len
        self.counts = Counts()
        self._numbers = count()
        self._waiting: dict[str, asyncio.Future[Sampled]] = {}
        self._driver: asyncio.Task[None] | None = None
        self._broken: BaseException | None = None

    @classmethod
    def of(cls, llm: Any) -> Engine:
        """The engine of a `vllm.LLM`, such as `trainer.vllm_generation.llm`."""
        return cls(llm.llm_engine, llm.model_config.max_model_len)

    async def sample(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        seed: int | None = None,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = 0,
        min_p: float = 0.0,
        stop_token_ids: Sequence[int] = (),
    ) -> Sampled:
        """One turn of at most `max_tokens`, fewer where the context ends. A cancelled request is taken out."""
        room = self.max_model_len - len(prompt_ids)
        if room <= 0:
            raise PromptTooLong(f"a prompt of {len(prompt_ids)} tokens fills the context of {self.max_model_len}")
        params = _params(
            max_tokens=min(max_tokens, room),
            seed=seed,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            min_p=min_p or 0.0,
            stop_token_ids=list(stop_token_ids),
        )
        request_id = f"turn-{next(self._numbers)}"
        future = self._add(request_id, list(prompt_ids), params)
        try:
            return await future
        finally:
            if self._waiting.pop(request_id, None) is not None and self._broken is None:
                self._guarded(lambda: self._llm.abort_request([request_id]))

    # ---- driving

    def _add(self, request_id: str, prompt_ids: list[int], params: Any) -> asyncio.Future[Sampled]:
        if self._broken is not None:
            raise EngineFailed(f"the engine has failed: {self._broken}") from self._broken
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sampled] = loop.create_future()
        self._waiting[request_id] = future
        self._guarded(lambda: self._llm.add_request(request_id, {"prompt_token_ids": prompt_ids}, params))
        if self._driver is None or self._driver.done():
            self._driver = loop.create_task(self._drive())
        return future

    async def _drive(self) -> None:
        """Step until nobody waits any more."""
        while self._waiting and self._broken is None:
            started = perf_counter()
            outputs = self._guarded(self._step) or []
            self.counts.busy_s += perf_counter() - started
            for output in outputs:
                self._finish(output)
            for _ in range(YIELDS):
                await asyncio.sleep(0)

    def _step(self) -> list[Any]:
        if not self._llm.has_unfinished_requests():
            raise RuntimeError(f"the engine has lost {len(self._waiting)} requests")
        self.counts.steps += 1
        return self._llm.step()

    def _finish(self, output: Any) -> None:
        """Hand a finished request's tokens to whoever waits for them."""
        if not output.finished:
            return
        future = self._waiting.pop(output.request_id, None)
        if future is None or future.done():
            return
        drawn = output.outputs[0]
        if drawn.finish_reason not in ("stop", "length"):
            self._fail(RuntimeError(f"the engine ended a request with {drawn.finish_reason!r}: {drawn.stop_reason}"))
            future.set_exception(self._failure())
            return
        ids = list(drawn.token_ids)
        self.counts.tokens += len(ids)
        logprobs = [at[index].logprob for at, index in zip(drawn.logprobs, ids, strict=True)]
        future.set_result(Sampled(ids, logprobs, cast(FinishReason, drawn.finish_reason)))

    # ---- failing

    def _guarded(self, action: Any) -> Any:
        """Call into the engine: the boundary at which all that it raises becomes its failure."""
        try:
            return action()
        except Exception as error:
            self._fail(error)
            return None

    def _fail(self, error: BaseException) -> None:
        self._broken = self._broken or error
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(self._failure())

    def _failure(self) -> EngineFailed:
        failure = EngineFailed(f"the engine has failed: {self._broken}")
        failure.__cause__ = self._broken
        return failure


def _params(**wanted: Any) -> Any:
    """Sampling parameters: token ids and their own log-probabilities, once, at the end."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(n=1, logprobs=0, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY, **wanted)
