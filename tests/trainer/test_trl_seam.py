"""What `trainer/grpo.py` overrides and reads of TRL, held by name and signature: no public interface promises it."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

WHY = "needs the trainer's stack"
torch = pytest.importorskip("torch", reason=WHY)
pytest.importorskip("trl.trainer.grpo_trainer", reason=WHY)

import trl  # noqa: E402
from gymwire.trainer import grpo, stack  # noqa: E402
from gymwire.trainer.grpo import SessionGRPOTrainer  # noqa: E402
from gymwire.trainer.masking import LOSSES  # noqa: E402
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM  # noqa: E402
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK  # noqa: E402
from trl.trainer.grpo_config import GRPOConfig  # noqa: E402
from trl.trainer.grpo_trainer import GRPOTrainer  # noqa: E402

from datasets import Dataset  # noqa: E402
from tests.trainer.exact import Case, play  # noqa: E402
from tests.trainer.exact import ours as made_ours  # noqa: E402
from tests.trainer.tiny import WORDS, save_model, tokenizer  # noqa: E402

#: What is overridden: the parameters of TRL's own, which ours must be able to take.
OVERRIDDEN = {
    "_generate_and_score_completions": ["self", "inputs"],
    "_calculate_rewards": ["self", "inputs", "prompts", "completions", "completion_ids_list"],
    "_prepare_inputs": ["self", "generation_batch"],
    "_compute_loss": ["self", "model", "inputs"],
    "training_step": ["self", "model", "inputs", "num_items_in_batch"],
}
#: What the constructor is given.
GIVEN = {"model", "reward_funcs", "args", "train_dataset", "eval_dataset", "processing_class", "callbacks"}
#: What is read or set of a trainer, and what it is while training.
READ: dict[str, type | tuple[type, ...]] = {
    "_buffered_inputs": list,
    "_step": int,
    "accelerator": object,
    "args": GRPOConfig,
    "aux_loss_enabled": bool,
    "current_gradient_accumulation_steps": int,
    "entropy_coef": float,
    "loss_type": str,
    "mask_truncated_completions": bool,
    "model": torch.nn.Module,
    "_tokenizer": object,
    "reward_funcs": list,
    "rollout_func": object,
    "state": object,
    "use_vllm": bool,
}
#: What `grpo.py` adds to a trainer and to a sample.
OURS = {"_collect", "_samples", "_alive_PK", "_survivors_K", "rewards"}
#: What a trainer has only together with an engine.
OF_THE_ENGINE = {"_last_loaded_step", "vllm_generation"}
#: What a micro-batch holds after generation.
BATCH = {
    "prompt_ids",
    "prompt_mask",
    "completion_ids",
    "completion_mask",
    "tool_mask",
    "advantages",
    "num_items_in_batch",
    "sampling_per_token_logps",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> GRPOTrainer:
    """A trainer of ours after one window."""
    kept: list[SessionGRPOTrainer] = []

    def made(**options: Any) -> SessionGRPOTrainer:
        kept.append(made_ours(**options))
        return kept[-1]

    case = Case(micro=4, per_generation=3, accumulation=3)
    play(case, save_model(tmp_path_factory.mktemp("model")), tmp_path_factory.mktemp("out"), made)
    return kept[0]


def names_of_trl() -> set[str]:
    """Attributes of the trainer that `grpo.py` uses and does not define."""
    tree = ast.parse(inspect.getsource(grpo))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "trainer")
    }
    return used - OURS - set(vars(SessionGRPOTrainer))


def test_the_pinned_minor_is_installed() -> None:
    assert trl.__version__.startswith("1.16.")


def test_all_that_is_overridden_is_held() -> None:
    there = {name for name in vars(SessionGRPOTrainer) if name in vars(GRPOTrainer) and not name.startswith("__")}
    assert there == set(OVERRIDDEN)


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_overridden_methods_take_what_they_took(name: str) -> None:
    theirs = inspect.signature(getattr(GRPOTrainer, name)).parameters
    ours = inspect.signature(getattr(SessionGRPOTrainer, name)).parameters
    assert list(theirs) == OVERRIDDEN[name] == list(ours)


def test_the_constructor_takes_what_it_is_given() -> None:
    assert set(inspect.signature(GRPOTrainer.__init__).parameters) >= GIVEN


def test_all_that_is_read_is_held() -> None:
    assert names_of_trl() == set(READ) | OF_THE_ENGINE


@pytest.mark.parametrize("name", READ)
def test_what_is_read_is_there(name: str, trained: GRPOTrainer) -> None:
    assert isinstance(getattr(trained, name), READ[name])


@pytest.mark.parametrize("name", sorted(OF_THE_ENGINE))
def test_what_is_read_with_an_engine_is_set_by_trl(name: str) -> None:
    assert f"self.{name} = " in inspect.getsource(GRPOTrainer.__init__)


def test_the_window_ends_where_gradients_are_synchronized(trained: GRPOTrainer) -> None:
    assert trained.accelerator.sync_gradients is True


def test_a_micro_batch_holds_what_the_loss_reads(trained: GRPOTrainer) -> None:
    assert trained._buffered_inputs is not None
    assert set(trained._buffered_inputs[0]) == BATCH | {grpo.ALIVE}


def test_rollouts_are_handed_over_under_the_names_that_trl_reads() -> None:
    source = inspect.getsource(GRPOTrainer._generate)
    assert 'required_keys = {"prompt_ids", "completion_ids", "logprobs"}' in source
    assert 'extra_fields.pop("env_mask", None)' in source


def test_every_loss_of_trl_is_sorted_by_its_divisor() -> None:
    source = ast.parse(dedent(inspect.getsource(GRPOTrainer._compute_loss)))
    known = {
        word.value
        for node in ast.walk(source)
        if isinstance(node, ast.Compare) and ast.unparse(node.left) == "self.loss_type"
        for word in ast.walk(node)
        if isinstance(word, ast.Constant)
    }
    assert known == LOSSES


def options(tmp_path: Path, **changed: Any) -> GRPOConfig:
    return GRPOConfig(str(tmp_path), use_cpu=True, bf16=False, report_to="none", **changed)


@pytest.mark.parametrize(
    ("changed", "fix"),
    [
        ({"loss_type": "ppo"}, "take one of bnpo, cispo"),
        ({"use_adaptive_entropy": True}, "set trl.entropy_coef"),
        ({"fp16": True}, "set trl.bf16: true"),
    ],
)
def test_what_cannot_be_masked_exactly_is_refused(changed: dict[str, Any], fix: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=fix):
        SessionGRPOTrainer("nowhere", args=options(tmp_path, **changed), collect=lambda *_: [], reward_names=["a"])


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [("ACCELERATE_MIXED_PRECISION", "fp16", r"trl\.bf16: true"), ("ACCELERATE_USE_DEEPSPEED", "true", "FSDP2")],
)
def test_what_accelerate_was_told_is_refused_too(
    name: str, value: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(tmp_path)
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=fix):
        SessionGRPOTrainer("nowhere", args=given, collect=lambda *_: [], reward_names=["a"])


def test_trackers_are_those_that_trl_can_have() -> None:
    assert set(stack.TRACKERS) == set(INTEGRATION_TO_CALLBACK)


def test_a_router_loss_is_refused(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 16, "moe_intermediate_size": 8, "head_dim": 8}
    heads: dict[str, Any] = {
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "num_experts": 4,
    }
    experts = Qwen3MoeForCausalLM(Qwen3MoeConfig(vocab_size=len(WORDS), num_experts_per_tok=2, **sizes, **heads))
    given = {"processing_class": tokenizer(), "train_dataset": Dataset.from_dict({"prompt": ["a"]})}
    arguments = {"args": options(tmp_path), "collect": lambda *_: [], "reward_names": ["a"], **given}
    with pytest.raises(ValueError, match=r"trl\.router_aux_loss_coef: 0"):
        SessionGRPOTrainer(experts, **arguments)
