"""Which sandbox the tests of environments use, and what becomes of them where none is to be had.

Docker where REQUIRE_DOCKER=1; else bubblewrap, which needs no daemon; else an engine that answers. The sandbox's own
tests name their backends themselves.
"""

from __future__ import annotations

import os
import shutil
from functools import cache
from inspect import signature

import pytest
from gymwire.servers import Environment
from gymwire.servers.sandbox.docker import engine_answers

from tests import docker_engine

NOTHING = "no sandbox: install bubblewrap, or start a container engine"


@cache
def available() -> bool:
    """Whether there is one; says so to every process and pool of the tests, by the environment's variables."""
    if os.environ.get("REQUIRE_DOCKER") == "1" or (shutil.which("bwrap") is None and engine_answers()):
        os.environ |= {"GYMWIRE_SANDBOX": "docker", "GYMWIRE_SANDBOX_IMAGE": docker_engine.required()}
        return True
    if shutil.which("bwrap") is None:
        return False
    os.environ["GYMWIRE_SANDBOX"] = "bubblewrap"
    return True


def wants_one(environment: type[Environment]) -> bool:
    return "sandbox" in signature(environment).parameters


def skip_without(environment: type[Environment]) -> None:
    """Skip a test whose environment cannot run here."""
    if wants_one(environment) and not available():
        pytest.skip(NOTHING)
