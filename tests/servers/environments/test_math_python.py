"""math_python's programs: whatever the policy sends is a result, and never a failed session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from fractions import Fraction
from typing import Any

import pytest
import pytest_asyncio
from gymwire.servers import ToolError
from gymwire.servers.environments.math_python import MathPython, is_exactly
from gymwire.servers.sandbox.jobs import Sandbox
from gymwire.servers.sandbox.select import SharedSandbox

from tests.sandboxes import skip_without

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    skip_without(MathPython)
    shared = SharedSandbox()
    yield await shared.get()
    await shared.close()


async def begun(sandbox: Sandbox, **settings: Any) -> MathPython:
    environment = MathPython(sandbox, **settings)
    environment.row = next(iter(MathPython.rows("eval", 1, 0)))
    environment.data = MathPython.Data.model_validate(dict(environment.row.data))
    await environment.reset(environment.row)
    return environment


@pytest.mark.parametrize(
    ("code", "timeout_s", "end"),
    [
        ("while True: pass", 1.0, "stopped: it ran for more than 1 s"),
        ("import os; os.abort()", 30.0, "[the program crashed]"),
        ("x = [0] * 10**10", 30.0, "MemoryError"),
        ("print('x' * 10**8)", 30.0, "stopped: it printed too much"),
    ],
)
async def test_what_a_program_does_is_told(sandbox: Sandbox, code: str, timeout_s: float, end: str) -> None:
    environment = await begun(sandbox, timeout_s=timeout_s)
    assert end in (await environment.python(code))[-200:]
    assert (await environment.python("print(6 * 7)")).strip() == "42"


async def test_a_program_of_megabytes_is_the_policys_mistake(sandbox: Sandbox) -> None:
    environment = await begun(sandbox)
    with pytest.raises(ToolError, match="cannot be run"):
        await environment.python("#" + "x" * 10_000_000)
    assert (await environment.python("print('\ud800')")).strip() == "?"


@pytest.mark.parametrize(
    ("said", "right"),
    [
        *((text, True) for text in ("7", "$7$", "7.", "\\boxed{7}", "\\text{7}", "x = 7", "14/2", "7.0", "\uff17")),
        *((text, False) for text in ("7%", "7, 8", "6.9999999", "", "7\x00", "\ud800", "(" * 100_000 + "7", "9^9^9^9")),
    ],
)
async def test_a_submitted_number_may_be_dressed_but_is_exact(said: str, right: bool) -> None:
    assert is_exactly(said, Fraction(7)) is right
