"""What a model's folder says of itself, read without torch: parameters, bytes, whether its template renders tools."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

MAX_HEADER_BYTES = 100 * 1024 * 1024
#: Names of the files a folder may keep its chat template in, the first that exists counts.
TEMPLATES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")


class ModelError(ValueError):
    """A folder that is no model; the message names the fix."""


@dataclass(frozen=True, slots=True)
class Weights:
    parameters: int
    bytes: int


def looks_local(path: str) -> bool:
    """Whether a model's path means a folder rather than a hub name."""
    return Path(path).exists() or path.startswith((".", "/", "~")) or path.count("/") != 1


def read_weights(folder: Path) -> Weights:
    """Sizes from the headers of the safetensors files. Raises `ModelError`."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelError(f"{folder} holds no *.safetensors file; save the model there with save_pretrained")
    try:
        shapes = [tensor["shape"] for file in files for name, tensor in _header(file).items() if name != "__metadata__"]
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise ModelError(f"{folder}: its weights cannot be read: {error}") from None
    return Weights(sum(prod(shape) for shape in shapes), sum(file.stat().st_size for file in files))


def _header(file: Path) -> dict[str, Any]:
    with file.open("rb") as opened:
        (length,) = struct.unpack("<Q", opened.read(8))
        if length > MAX_HEADER_BYTES:
            raise ValueError(f"{file.name} is no safetensors file")
        return json.loads(opened.read(length))


def read_template(folder: Path) -> str | None:
    """The text of the chat template, None where the folder has none."""
    for name in TEMPLATES:
        file = folder / name
        if not file.is_file():
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        if file.suffix == ".jinja":
            return text
        try:
            found = json.loads(text).get("chat_template")
        except (ValueError, AttributeError):
            continue
        if isinstance(found, str | list | dict):
            return found if isinstance(found, str) else json.dumps(found)
    return None


def context_of(folder: Path) -> int | None:
    """How many tokens the model can hold, where its config says so."""
    value = _config_of(folder).get("max_position_embeddings")
    return value if isinstance(value, int) else None


def router_coefficient_of(folder: Path) -> float | None:
    """The weight of the router loss, where the model has one."""
    config = _config_of(folder)
    value = config.get("router_aux_loss_coef") if "output_router_logits" in config else None
    return value if isinstance(value, int | float) else None


def _config_of(folder: Path) -> dict[str, Any]:
    """The model's config, of a model of several parts that of its text."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(config, dict):
        return {}
    text = config.get("text_config")
    return config | text if isinstance(text, dict) else config
