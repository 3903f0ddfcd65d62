"""The tiny policy: its tokenizer, its scripts, and a warm start that leaves GRPO something to learn."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from click.testing import Result
from gymwire.servers.cli import build as build_cli
from typer.testing import CliRunner

WHY = "needs the trainer's stack"
torch = pytest.importorskip("torch", reason=WHY)
pytest.importorskip("transformers", reason=WHY)

from gymwire.servers.environments.codebook import KEYS, Codebook, draw, is_held_out  # noqa: E402
from gymwire.servers.types import Tool  # noqa: E402
from gymwire.trainer import policy  # noqa: E402
from gymwire.trainer.policy import IGNORED, Writer, build  # noqa: E402
from gymwire.trainer.tiny import make_model, make_tokenizer  # noqa: E402
from gymwire.trainer.tokens import ChatTemplate, Dialogue  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

TOOLS = [spec.tool for spec in Codebook.tool_specs.values()]


def gymwire(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(build_cli("policy"), ["policy", *arguments])


# The tokenizer


@pytest.mark.parametrize(
    "text", ["", "amber 7", "no such wörd \u2028\n\t\U0001f600", "amberamber", "<|im_start|", "42"]
)
def test_any_text_comes_back(text: str) -> None:
    tokenizer = make_tokenizer()
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_digits_and_keys_are_a_token_each() -> None:
    tokenizer = make_tokenizer()
    assert len(tokenizer("0123456789")["input_ids"]) == 10
    assert all(len(tokenizer(key)["input_ids"]) == 1 for key in KEYS)
    assert 300 < len(tokenizer) < 400


def test_a_prompt_and_a_turn_are_a_few_tokens() -> None:
    template = ChatTemplate(make_tokenizer())
    row = next(Codebook.rows("eval", 1, 0))
    assert len(template.prompt(row.prompt, TOOLS)) < 24
    assert len(template.turn(policy._turn_of("submit", {"first": 3, "second": 7}))) == 8


def test_tools_of_other_environments_are_shown_too() -> None:
    template = ChatTemplate(make_tokenizer())
    tool = Tool("pay", "Pay for all.", {"type": "object", "properties": {"sum": {"type": "integer"}}})
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Pay."}]
    shown = template.encoder.text(template.prompt(asked, [tool]))
    assert "Be brief." in shown and "pay(sum): Pay for all." in shown


@pytest.mark.parametrize("tied", [True, False])
def test_the_model_has_about_a_million_parameters(tied: bool) -> None:
    model = make_model(make_tokenizer(), tied=tied)
    assert 1.2e6 < sum(weights.numel() for weights in model.parameters()) < 1.4e6
    shared = model.lm_head.weight is model.model.embed_tokens.weight
    assert shared == tied


def test_equal_seeds_make_equal_models() -> None:
    first, second, third = (make_model(make_tokenizer(), seed=seed).lm_head.weight for seed in (1, 1, 2))
    assert torch.equal(first, second) and not torch.equal(first, third)


# The scripts


@pytest.mark.parametrize("kind", ["_clean", "_noisy"])
def test_scripts_are_dialogues_in_which_the_policys_part_alone_is_learned(kind: str) -> None:
    template, rng = ChatTemplate(make_tokenizer()), Random(0)
    write = Writer(template)
    for index in range(50):
        row = draw(rng, index, held_out=False)
        script = getattr(policy, kind)(row, rng)
        dialogue = Dialogue(template, row.prompt, TOOLS)
        for key, answer in script.lookups:
            ids = template.turn(policy._turn_of("lookup", {"key": key}))
            dialogue.append_sampled(ids, [0.0] * len(ids))
            dialogue.append_messages([{"role": "tool", "content": answer}])
        ids = template.turn(policy._turn_of("submit", {"first": script.code[0], "second": script.code[1]}))
        dialogue.append_sampled(ids, [0.0] * len(ids))
        ids, labels = write(script)
        assert ids == dialogue.ids
        mask = [0] * len(dialogue.prompt_ids) + dialogue.sampled
        assert labels == [index if learned else IGNORED for index, learned in zip(ids, mask, strict=True)]


def test_no_held_out_pair_is_learned_from() -> None:
    rng = Random(0)
    assert not any(is_held_out(*row.data["keys"]) for _ in range(20) for row in policy._rows(rng))


# The command


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_warm_start_wins_some_of_the_held_out_rows(tmp_path: Path) -> None:
    stages: list[str] = []
    made = build(tmp_path, seed=0, on_step=lambda stage, done, loss: stages.append(stage))
    assert made.useful and policy.USEFUL == (0.1, 0.5)
    assert list(dict.fromkeys(stages)) == ["clean", "noisy", "held out"]
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert model.dtype == torch.float32 and model.config.model_type == "qwen3"
    assert ChatTemplate(tokenizer).stop_token_ids == ChatTemplate(make_tokenizer()).stop_token_ids
    rows = list(Codebook.rows("eval", None, 0))
    assert policy.held_out_success(model, tokenizer, rows, seed=0) == pytest.approx(made.success)


def test_the_command_says_what_it_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "build", lambda out, **_: policy.WarmStart(1_270_000, 50, 40.2, 0.05))
    done = gymwire("tiny", str(tmp_path / "tiny"))
    assert done.exit_code == 0, done.output
    assert "1.27 M parameters, warm-started in 40 s; held-out success at temperature 1: 0.05" in done.stdout
    assert "outside 0.1 to 0.5" in done.stderr and "--seed" in done.stderr


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("mine")
    done = gymwire("tiny", str(tmp_path))
    assert done.exit_code == 2 and "is not empty; choose another folder" in done.stderr
