"""Which sandbox the tests of environments use, and what becomes of them where none is to be had.

Docker where REQUIRE_DOCKER=1; else bubblewrap, which needs no daemon; else an engine that answers. The sandbox's own
tests name their backends themselves.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from inspect import signature

import pytest
from gymwire.servers import Environment
from gymwire.servers.sandbox.docker import engine_answers
from gymwire.servers.sandbox.jobs import Sandbox
from gymwire.servers.sandbox.select import SharedSandbox

from tests import docker_engine

NOTHING = "no sandbox: install bubblewrap, or start a container engine"


@cache
def available() -> bool:
    """Whether there is one; says so to every process and pool of the tests, by the environment's variables."""
    demanded = os.environ.get("REQUIRE_DOCKER") == "1"
    if shutil.which("bwrap") is not None and not demanded:
        os.environ["GYMWIRE_SANDBOX"] = "bubblewrap"
        return True
    if not demanded and not engine_answers():
        return False
    try:
        os.environ |= {"GYMWIRE_SANDBOX": "docker", "GYMWIRE_SANDBOX_IMAGE": docker_engine.image()}
    except docker_engine.EngineMissing:
        if demanded:
            raise
        return False
    return True


def wants_one(environment: type[Environment]) -> bool:
    return "sandbox" in signature(environment).parameters


def must_have_one(environment: type[Environment]) -> bool:
    asked = signature(environment).parameters.get("sandbox")
    return asked is not None and asked.default is asked.empty


def can_run(environment: type[Environment]) -> bool:
    return not wants_one(environment) or available()


def skip_without(environment: type[Environment]) -> None:
    """Skip a test whose environment cannot run here."""
    if not can_run(environment):
        pytest.skip(NOTHING)


@asynccontextmanager
async def settings_of(environment: type[Environment]) -> AsyncIterator[dict[str, Sandbox]]:
    """What its `__init__` must have: a sandbox, or nothing. Skips the test where none is to be had."""
    if not must_have_one(environment):
        yield {}
        return
    skip_without(environment)
    shared = SharedSandbox()
    try:
        yield {"sandbox": await shared.get()}
    finally:
        await shared.close()
