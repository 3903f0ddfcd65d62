"""One typed tree for a run: a YAML file plus `--set a.b=c`. Validates without torch, TRL or vLLM.

Unknown keys are refused with the nearest name. `trl` alone is handed on as it is, to TRL's GRPOConfig.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError


class ConfigError(ValueError):
    """A config that cannot run; the message names the key and the fix."""


#: The value of model.chat_template that means TRL's own.
TRAINING = "training"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Model(_Section):
    path: str
    """A folder or hub name with weights, tokenizer and a chat template that renders tools."""
    chat_template: str | None = None
    """A Jinja file instead of the model's own template; "training" takes the one that TRL has for this model."""
    lora: dict[str, Any] | None = None
    """Arguments of peft's LoraConfig; without it every weight is trained."""


class Data(_Section):
    split: str = "train"
    """The environment's split that rows are drawn from."""
    eval_split: str = "eval"
    """The held-out split."""
    rows: Path | None = None
    """A JSONL file of rows, instead of the environment's own."""
    eval_rows: Path | None = None
    """A JSONL file of held-out rows."""
    count: Annotated[int, Field(gt=0)] | None = None
    """Train on the first so many rows only."""
    eval_count: Annotated[int, Field(ge=0)] = 128
    """Evaluate on the first so many held-out rows; 0: not at all."""
    retire_above: float | None = None
    """Rows whose group's mean reward reaches this are drawn no more."""
    components: list[str] | None = None
    """Reward components that TRL sees one by one, for trl.reward_weights and trl.multi_objective_aggregation."""


class EnvironmentConfig(_Section):
    name: str
    """An environment's name; in-process also package.module:Class."""
    url: str | None = None
    """Where it is served; without it the environment runs in this process."""
    wire: Literal["nemo-gym", "openenv", "mcp", "local"] | None = None
    """Default: nemo-gym at a URL, local without one."""
    token_file: Path | None = None
    """A file with the server's bearer token."""
    max_concurrent: Annotated[int, Field(gt=0)] = 64
    """Sessions in flight at once."""
    allowed_tools: list[str] | None = None
    """Patterns of the tools offered to the policy; default: all that the environment offers."""
    settings: dict[str, Any] = {}
    """Constructor arguments, in-process only."""


class Rollout(_Section):
    max_turns: Annotated[int, Field(gt=0)] | None = None
    """Turns an episode may take; default: the environment's own limit."""
    max_turn_tokens: Annotated[int, Field(gt=0)] = 512
    """Tokens the policy may sample in one turn."""
    max_tokens: Annotated[int, Field(gt=0)] = 4096
    """Tokens of a whole conversation after its prompt, those of tools included."""
    max_result_tokens: Annotated[int, Field(gt=0)] = 1024
    """A longer tool result is cut; the end that is kept is said."""
    tool_timeout_s: Annotated[float, Field(gt=0)] = 60.0
    """How long one call or verdict may take before the session counts as failed."""
    max_refill: Annotated[int, Field(ge=0)] = 0
    """How often the groups without variance of a batch are replaced by fresh rows."""


class Failures(_Section):
    recover: Annotated[int, Field(ge=0)] = 1
    """How often a broken session is recovered by replay."""
    max_retries: Annotated[int, Field(ge=0)] = 1
    """How often an episode is then begun anew."""
    patience_s: Annotated[float, Field(ge=0)] = 120.0
    """How long a session waits for a server that nobody can reach, a restarting one for instance."""
    on_failure: Literal["mask", "drop_group", "stop"] = "mask"
    """What becomes of a session that is still failed: it is masked, its whole group is, or the run stops."""
    stop_after: Annotated[int, Field(gt=0)] = 64
    """Stop the run after so many failed sessions in a row."""
    stop_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Stop the run when a larger share of a batch than this fails."""


class Log(_Section):
    dir: Path = Path("runs/run")
    """The run's folder."""
    trajectories: bool = True
    """Write every episode's turns, calls, results and rewards."""
    audit_first_step: bool = True
    """Check the tokens of the first step against the template and the server."""


class Config(_Section):
    """A run of `gymwire train`."""

    model: Model
    environment: EnvironmentConfig
    data: Data = Data()
    rollout: Rollout = Rollout()
    failures: Failures = Failures()
    trl: dict[str, Any] = {}
    """Options of TRL's GRPOConfig, as they are."""
    log: Log = Log()


#: Options that gymwire sets itself, and where they are set instead.
OWNED = {
    "output_dir": "log.dir",
    "max_completion_length": "rollout.max_tokens",
    "use_vllm": "nothing: rollouts always come from the colocated vLLM",
    "vllm_mode": "nothing: vLLM is always colocated",
    "remove_unused_columns": "nothing: the rows never pass through TRL",
    "eval_strategy": "trl.eval_steps and data.eval_count: held-out rows are played as episodes",
    "reward_funcs": "nothing: rewards come from the environment's verify",
    "resume_from_checkpoint": "--resume",
}


def read_config(path: Path, overrides: Iterable[str] = ()) -> Config:
    """Read a config file. Raises `ConfigError`."""
    try:
        raw = _load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: a config is a mapping with the sections {', '.join(Config.model_fields)}")
    for override in overrides:
        _override(raw, override)
    return check_config(raw, str(path))


def check_config(raw: Mapping[str, Any], place: str = "config") -> Config:
    """The typed tree. Raises `ConfigError` that lists everything wrong at once."""
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        raise ConfigError("\n".join(f"{place}: {_explain(item)}" for item in error.errors())) from None
    for key in config.trl:
        if key in OWNED:
            raise ConfigError(f"{place}: trl.{key} is not yours to set; it is set by {OWNED[key]}")
    if config.environment.url is None and config.environment.wire not in (None, "local"):
        raise ConfigError(f"{place}: environment.wire {config.environment.wire} needs environment.url")
    if config.environment.url is not None and config.environment.settings:
        raise ConfigError(f"{place}: environment.settings are for in-process environments; set them where it is served")
    return config


def as_json(config: Config) -> dict[str, Any]:
    """The config as plain data: the file that `read_config` reads again."""
    return config.model_dump(mode="json")


class _Loader(yaml.SafeLoader):
    """YAML that reads 3e-4 as the number it is; YAML 1.1 wants 3.0e-4 and makes text of it."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(?:\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def _load(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)


def _override(raw: dict[str, Any], text: str) -> None:
    path, equals, value = text.partition("=")
    keys = path.split(".")
    if not equals or not all(keys):
        raise ConfigError(f"--set {text!r}: write it as section.key=value")
    place = raw
    for key in keys[:-1]:
        inner = place.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {text!r}: {key} is no section")
        place = inner
    place[keys[-1]] = _value(value)


def _value(text: str) -> Any:
    """YAML, as in the file: numbers, true, null, lists; what is none of it is text."""
    try:
        return _load(text)
    except yaml.YAMLError:
        return text


def _explain(item: Any) -> str:
    where = ".".join(str(step) for step in item["loc"])
    if item["type"] != "extra_forbidden":
        return f"{where}: {item['msg']}"
    known = _fields_at(item["loc"][:-1])
    close = get_close_matches(str(item["loc"][-1]), known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(known)}"
    return f"{where}: there is no such key; {hint}"


def _fields_at(loc: tuple[int | str, ...]) -> list[str]:
    model: Any = Config
    for step in loc:
        model = model.model_fields[str(step)].annotation
    return list(model.model_fields)
