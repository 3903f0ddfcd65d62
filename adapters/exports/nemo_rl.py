"""NeMo RL: a YAML laid over one of its own recipes, rows with `agent_ref`, and the NeMo Gym folder they name.

NeMo RL reads `instance_config.mask_sample`, which the server's masked verdicts carry, and leaves such samples out of
the loss (and still counts them in the group's baseline).
"""

from __future__ import annotations

from .facts import Facts
from .folder import filled
from .models import UNKNOWN, family_of
from .names import module
from .nemo_gym import agent_name, config_path, rows_with_agent, shim
from .nemo_gym import settings as gym_settings
from .readme import Setting, readme, serve_command
from .target import Export, Options, Target
from .text import quoted, rows_text, uninterpolated

#: `main` names data sets in `data.train`; recipes of 2025 have one path for each.
VERSIONS = ("main", "2025")
GYM_VERSION = "0.7.0"
GENERATIONS, PROMPTS = 8, 16
BASE = "examples/nemo_gym/grpo_workplace_assistant_nemotron_nano_v2_9b.yaml"
DATA = """\
data:
  train:
    dataset_name: NemoGymDataset
    data_path: "{rows}"
  validation: null
  default:
    processor: nemo_gym_data_processor
    env_name: nemo_gym
  shuffle: true"""
OLD_DATA = """\
data:
  train_jsonl_fpath: "{rows}"
  validation_jsonl_fpath: "{rows}"
  agent_name: {agent}
  shuffle: true"""
MASKING = "  should_mask_flagged_samples: true\n"
COMMANDS = """\
{serve}
export NEMO_GYM_EXTRA_ROOTS={folder}        # on every node, before Ray starts
cd NeMo-RL                                  # its checkout; `defaults` in the YAML is a path inside of it
cp {folder}/grpo_{env}.yaml .
uv run examples/nemo_gym/run_grpo_nemo_gym.py --config grpo_{env}.yaml"""


def export(facts: Facts, options: Options) -> Export:
    new = options.version == VERSIONS[0]
    rows = options.out / "rows.jsonl"
    family = family_of(options.model)
    files = shim(facts, GYM_VERSION)
    del files[f"resources_servers/{module(facts)}/data/rows.jsonl"]
    generations, prompts = group(facts)
    files[f"grpo_{facts.name}.yaml"] = filled(
        "nemo_rl/grpo.yaml",
        {
            "name": facts.name,
            "base": BASE,
            "prompts": prompts,
            "generations": generations,
            "model": quoted(uninterpolated(options.model)),
            "tool_parser": family.tool_parser or "hermes",
            "data": (DATA if new else OLD_DATA).format(rows=quoted(uninterpolated(str(rows))), agent=agent_name(facts)),
            "masking": MASKING if new else "",
            "config": config_path(facts),
            "agent": agent_name(facts),
            "max_turns": facts.max_turns,
        },
    )
    files["rows.jsonl"] = rows_text(rows_with_agent(facts))
    warnings = tuple(_warnings(options, new, known=family is not UNKNOWN))
    files["README.md"] = readme(
        f"{facts.name} for NeMo RL",
        facts,
        versions=f"NeMo RL {options.version} with nemo-gym {GYM_VERSION}",
        commands=COMMANDS.format(env=facts.name, serve=serve_command(facts), folder=options.folder),
        settings=[*_settings(facts, prompts, generations, new), *gym_settings(facts)],
        notes=(
            *warnings,
            "The YAML was not run: its keys are checked against a recorded list, and its parts for NeMo Gym by "
            "NeMo Gym's own launcher. Sizes, learning rate and GPUs are those of the recipe it is laid over.",
            "The rows' path is absolute: where the folder moves, `data` must follow.",
        ),
    )
    return Export(files, warnings)


def group(facts: Facts) -> tuple[int, int]:
    """Generations of a prompt, and prompts of a step: all of a step's rollouts are seeded at once."""
    generations = min(GENERATIONS, facts.capacity)
    return generations, max(1, min(PROMPTS, facts.capacity // generations))


def _warnings(options: Options, new: bool, *, known: bool) -> list[str]:
    warnings = []
    if not known:
        warnings.append(
            f"No tool parser is known for {options.model}; `hermes` is written. A wrong one leaves calls in the text."
        )
    if not new:
        warnings.append(
            "Recipes of 2025 want a validation file; the training rows stand there, and `val_period: 0` plays none."
        )
    return warnings


def _settings(facts: Facts, prompts: int, generations: int, new: bool) -> list[Setting]:
    masking = [
        Setting(
            "env.should_mask_flagged_samples",
            "true",
            "true as well; false trains on the 0.0 of sessions that our side broke",
        )
    ]
    return [
        Setting(
            "grpo.num_prompts_per_step * num_generations_per_prompt",
            f"{prompts} * {generations}",
            f"the recipe's; beyond {facts.capacity} at once a seed waits "
            f"{float(facts.limits['queue_timeout_s']):g} s for a place and fails",
        ),
        *(masking if new else []),
        Setting("grpo.max_rollout_turns", 1, "NeMo RL would play turns of its own around the agent's"),
        Setting(
            "policy.generation.vllm_cfg.expose_http_server",
            "true",
            "NeMo Gym's agent has no model to ask",
        ),
        Setting("NEMO_GYM_EXTRA_ROOTS", "(environment)", "NeMo Gym does not find the folder"),
    ]


TARGET = Target("nemo-rl", VERSIONS, export)
