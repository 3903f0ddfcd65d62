"""How much memory a run needs, roughly, and how much is free. Estimates, to refuse what cannot fit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .config import Config
from .weights import Weights

GIB = 1024**3
#: Torch, TRL, vLLM and the tokenizer before any weight is loaded, and the activations of a small batch.
SOFTWARE_GIB, ACTIVATIONS_GIB = 1.5, 0.5
#: Bytes a trained parameter takes: its weight and gradient, and Adam's two moments, all in fp32.
TRAINED_BYTES, FROZEN_BYTES = 16, 4


@dataclass(frozen=True, slots=True)
class Need:
    """GiB by what takes them."""

    parts: Mapping[str, float]

    @property
    def total_gib(self) -> float:
        return sum(self.parts.values())


def need(config: Config, weights: Weights, *, cpu: bool) -> Need:
    """What one process needs. LoRA keeps the frozen weights once, and its own parameters do not count."""
    trained = TRAINED_BYTES if config.model.lora is None else FROZEN_BYTES
    width = 4 if cpu or not _is_half(config.trl) else 2
    scale = width / 4
    engine = {"engine": weights.parameters * (4 if cpu else 2) / GIB, "cache": _cache_gib()} if cpu else {}
    return Need(
        {
            "training": weights.parameters * trained * scale / GIB,
            **engine,
            "software": SOFTWARE_GIB + ACTIVATIONS_GIB,
        }
    )


def _is_half(trl: Mapping[str, Any]) -> bool:
    return "16" in str((trl.get("model_init_kwargs") or {}).get("dtype", ""))


def _cache_gib() -> float:
    try:
        return float(os.environ.get("VLLM_CPU_KVCACHE_SPACE", "1"))
    except ValueError:
        return 1.0


def free_gib() -> float | None:
    """Memory of this machine that a process can take now, its control group's limit included."""
    found = [value for value in (_meminfo_gib(), _cgroup_gib()) if value is not None]
    return min(found, default=None)


def _meminfo_gib() -> float | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields["MemAvailable"].split()[0]) * 1024 / GIB if "MemAvailable" in fields else None


def _cgroup_gib() -> float | None:
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return None
    return None if limit == "max" else (int(limit) - used) / GIB


def free_gpu_gib() -> list[float]:
    """Free memory of each GPU that the driver's own tool sees."""
    command = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        return [float(line) / 1024 for line in done.stdout.split("\n") if line.strip()]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
