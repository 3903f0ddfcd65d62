"""The colocated engine: the same weights on both sides after every sync, and one batch for all sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

WHY = "needs the trainer's stack"
pytest.importorskip("vllm", reason=WHY)
grpo_trainer = pytest.importorskip("trl.trainer.grpo_trainer", reason=WHY)  # this way its warnings are no errors

import torch  # noqa: E402
from accelerate import Accelerator  # noqa: E402
from gymwire.trainer import vllm_cpu  # noqa: E402
from gymwire.trainer.engine import Engine, EngineFailed, PromptTooLong, Sampled  # noqa: E402
from gymwire.trainer.policy import save  # noqa: E402
from gymwire.trainer.tiny import make_model, make_tokenizer  # noqa: E402
from gymwire.trainer.vllm_cpu import CpuVLLMGeneration, generation_for_this_machine  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402
from trl import GRPOTrainer  # noqa: E402
from trl.generation.vllm_generation import VLLMGeneration  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300), pytest.mark.slow]
AGREEMENT = 1e-4
CONTEXT = 128
PROMPTS = [[(7 * place + step) % 256 for place in range(12 + step)] for step in range(8)]


@pytest.fixture(scope="module")
def generations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, CpuVLLMGeneration]]:
    """TRL's generation with a tied and an untied model: two engines, for the whole module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
        patch.setattr(vllm_cpu, "ENVIRONMENT", {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"})
        patch.setattr(vllm_cpu, "LLM_ARGUMENTS", {**vllm_cpu.LLM_ARGUMENTS, "kv_cache_memory_bytes": 64 << 20})
        yield {kind: _generation(tmp_path_factory.mktemp(kind), kind == "tied") for kind in ("tied", "untied")}


def _generation(folder: Path, tied: bool) -> CpuVLLMGeneration:
    tokenizer = make_tokenizer()
    save(make_model(tokenizer, tied=tied), tokenizer, folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    return CpuVLLMGeneration(
        model, Accelerator(cpu=True), tokenizer, max_model_length=CONTEXT, max_num_seqs=48, gpu_memory_utilization=0.1
    )


@pytest.fixture
def engine(generations: dict[str, CpuVLLMGeneration]) -> Engine:
    return Engine.of(generations["tied"].llm)


async def sample_all(engine: Engine, **options: Any) -> list[Sampled]:
    options = {"max_tokens": 16, **options}
    return await asyncio.gather(*(engine.sample(ids, seed=at, **options) for at, ids in enumerate(PROMPTS)))


# Weights


def furthest(model: Any, sampled: list[Sampled], temperature: float = 1.0) -> float:
    """How far apart both sides' log-probabilities of the sampled ids are at most."""
    gaps = []
    for prompt, turn in zip(PROMPTS, sampled, strict=True):
        with torch.no_grad():
            logits_TV = model(torch.tensor([prompt + turn.ids])).logits[0, len(prompt) - 1 : -1]
        theirs_T = (logits_TV / temperature).log_softmax(-1)[range(len(turn.ids)), turn.ids]
        gaps.append((theirs_T - torch.tensor(turn.logprobs)).abs().max().item())
    return max(gaps)


@pytest.mark.parametrize("kind", ["tied", "untied"])
async def test_both_sides_agree_after_every_sync(generations: dict[str, CpuVLLMGeneration], kind: str) -> None:
    generation = generations[kind]
    engine = Engine.of(generation.llm)
    assert furthest(generation.model, await sample_all(engine)) < AGREEMENT
    for _ in range(2):
        _perturb(generation.model)
        assert furthest(generation.model, await sample_all(engine)) > 100 * AGREEMENT
        generation.sync_weights()
        assert furthest(generation.model, await sample_all(engine)) < AGREEMENT


def _perturb(model: Any) -> None:
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(torch.randn_like(weights) * 0.05)


async def test_log_probabilities_are_those_that_were_drawn_with(generations: dict[str, CpuVLLMGeneration]) -> None:
    sampled = await sample_all(Engine.of(generations["tied"].llm), temperature=0.5)
    assert furthest(generations["tied"].model, sampled, temperature=0.5) < AGREEMENT


# Batches


async def session(engine: Engine, number: int, turns: int, pauses: int) -> None:
    """A few turns, with a tool between them that takes so many rounds of the loop."""
    ids = list(PROMPTS[number])
    for turn in range(turns):
        ids += (await engine.sample(ids, max_tokens=12, seed=turn)).ids
        for _ in range(pauses):
            await asyncio.sleep(0)


async def test_many_sessions_with_tools_take_about_the_steps_of_one(engine: Engine) -> None:
    await session(engine, 0, turns=3, pauses=20)
    alone = engine.counts.steps
    await asyncio.gather(*(session(engine, number, turns=3, pauses=5 * number) for number in range(8)))
    together = engine.counts.steps - alone
    assert together < 2 * alone, "requests of different sessions were not batched"
    assert engine.counts.tokens > 6 * alone


async def test_equal_batches_with_equal_seeds_draw_equal_tokens(engine: Engine) -> None:
    first, second = await sample_all(engine), await sample_all(engine)
    assert [turn.ids for turn in first] == [turn.ids for turn in second]
    prompt = PROMPTS[0]
    drawn = await asyncio.gather(*(engine.sample(prompt, max_tokens=16, seed=seed) for seed in range(4)))
    assert len({tuple(turn.ids) for turn in drawn}) == 4


async def test_more_seeded_prompts_than_fit_into_one_step_are_sampled(engine: Engine) -> None:
    prompts = [[place, *range(CONTEXT - 10)] for place in range(48)]  # a step of TRL's engine holds 4096 tokens
    drawn = await asyncio.gather(*(engine.sample(ids, max_tokens=2, seed=1) for ids in prompts))
    assert [len(turn.ids) for turn in drawn] == [2] * len(prompts)


def test_a_step_of_the_engine_holds_the_longest_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_cpu, "LLM", lambda **arguments: arguments["max_num_batched_tokens"])
    asked = {"model": str(tmp_path), "max_num_batched_tokens": 4096}
    assert vllm_cpu._llm(**asked, max_model_len=512) == 4096
    assert vllm_cpu._llm(**asked, max_model_len=9000) == 9000
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 8000}')
    assert vllm_cpu._llm(**asked, max_model_len=None) == 8000


async def test_a_turn_ends_at_a_stop_token_or_at_its_length(engine: Engine) -> None:
    stopped = await engine.sample(PROMPTS[0], max_tokens=8, seed=1, stop_token_ids=range(300))
    assert (stopped.finish_reason, len(stopped.ids), len(stopped.logprobs)) == ("stop", 1, 1)
    cut = await engine.sample(PROMPTS[0], max_tokens=3, seed=1)
    assert (cut.finish_reason, len(cut.ids)) == ("length", 3)


async def test_a_turn_ends_with_the_context(engine: Engine) -> None:
    assert len((await engine.sample([5] * (CONTEXT - 2), max_tokens=64, seed=1)).ids) == 2
    with pytest.raises(PromptTooLong, match="a prompt of 128 tokens fills the context of 128"):
        await engine.sample([5] * CONTEXT, max_tokens=1)


async def test_a_cancelled_request_is_taken_out_and_the_others_go_on(engine: Engine) -> None:
    stays = asyncio.create_task(engine.sample(PROMPTS[0], max_tokens=40, seed=0))
    leaves = asyncio.create_task(engine.sample(PROMPTS[1], max_tokens=100, seed=0))
    while engine.counts.steps < 5:
        await asyncio.sleep(0)
    leaves.cancel()
    await stays
    assert leaves.cancelled() or (await asyncio.wait([leaves]))[0]
    assert not engine._llm.has_unfinished_requests()
    assert engine.counts.steps < 60


# Failures, on an engine that only pretends


class Pretended:
    """Takes requests, and on its third step does what the test wants."""

    def __init__(self, wanted: str) -> None:
        self.wanted, self.requests, self.aborted, self.steps = wanted, [], [], 0

    def add_request(self, request_id: str, prompt: Any, params: Any) -> None:
        if self.wanted == "refuse" and len(self.requests) == 2:
            raise ValueError("no room")
        self.requests.append(request_id)

    def abort_request(self, request_ids: list[str]) -> None:
        self.aborted += request_ids

    def has_unfinished_requests(self) -> bool:
        return self.wanted != "lose" or self.steps < 3

    def step(self) -> list[Any]:
        self.steps += 1
        if self.wanted == "raise" and self.steps == 3:
            raise RuntimeError("out of memory")
        return []


@pytest.mark.parametrize(("wanted", "cause"), [("raise", "out of memory"), ("refuse", "no room"), ("lose", "lost")])
async def test_an_engine_error_reaches_every_waiting_session(wanted: str, cause: str) -> None:
    engine = Engine(Pretended(wanted), CONTEXT)
    async with asyncio.timeout(5):
        ended = await asyncio.gather(*(engine.sample([1], max_tokens=4) for _ in range(5)), return_exceptions=True)
    assert len(ended) == 5
    for error in ended:
        assert isinstance(error, EngineFailed) and cause in str(error) and error.__cause__ is not None
    with pytest.raises(EngineFailed, match=cause):
        await engine.sample([1], max_tokens=4)


async def test_an_engine_error_ends_sessions_that_wait_for_other_things_too() -> None:
    engine = Engine(Pretended("raise"), CONTEXT)

    async def waits_for_its_tool() -> None:
        await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as ended:
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            group.create_task(engine.sample([1], max_tokens=4))
            group.create_task(waits_for_its_tool())
    assert ended.group_contains(EngineFailed, match="out of memory")


async def test_a_cancelled_request_is_aborted_by_our_own_id() -> None:
    pretended = Pretended("nothing")
    task = asyncio.create_task(Engine(pretended, CONTEXT).sample([1], max_tokens=4))
    while pretended.steps < 2:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert pretended.aborted == pretended.requests
    steps = pretended.steps
    for _ in range(20):
        await asyncio.sleep(0)
    assert pretended.steps <= steps + 1, "the engine is driven although nobody waits"


# TRL


def test_trl_makes_its_engine_of_our_class_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "VLLMGeneration" in GRPOTrainer.__init__.__code__.co_names
    assert "LLM" in VLLMGeneration._init_vllm.__code__.co_names
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    with generation_for_this_machine():
        assert grpo_trainer.VLLMGeneration is CpuVLLMGeneration
    assert grpo_trainer.VLLMGeneration is VLLMGeneration


def test_with_an_accelerator_trl_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    with generation_for_this_machine():
        assert grpo_trainer.VLLMGeneration is VLLMGeneration


def test_what_a_cpu_cannot_do_is_refused() -> None:
    with pytest.raises(ValueError, match="leave vllm_mode, vllm_tensor_parallel_size and vllm_enable_sleep_mode"):
        CpuVLLMGeneration(torch.nn.Linear(1, 1), Accelerator(cpu=True), make_tokenizer(), enable_sleep_mode=True)  # type: ignore[arg-type]
