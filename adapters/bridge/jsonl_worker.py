"""`--from jsonl-worker 'command'`: a program in any language that reads requests and writes answers, a JSON object a
line each, on its standard input and output. A process is one session; what it prints to stderr goes to the log.

    {"op": "describe"}                                       {"tools": [{"name", "description", "parameters"}, …]}
    {"op": "reset", "prompt": […], "data": {…}, "seed": 7}   {"prompt": "its last message", "tools": ["name", …]}
    {"op": "step", "tool": "look", "arguments": {…}}         {"text": "…", "error": false, "done": false, "reward": 0.5}
    {"op": "verify", "answer": "…", "messages": […], "ending": "finished"}    {"reward": 1.0} or {"components": {…}}

All keys of an answer are optional but `tools` of `describe`, which may also carry `name`, `description` and
`max_turns`. A verify without a reward scores the sum of the steps' rewards. `{"failure": "reason"}` says at any time
that the program's own side broke: the session fails, and is masked. So it is where the program ends, is silent for
too long, or writes what is no JSON object.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import fsum
from select import select
from time import monotonic
from typing import Any, ClassVar

from ...servers.environment import DefinitionError, Environment, passed_on
from ...servers.failures import SessionFailure, ToolTimeout
from ...servers.results import finite_number
from ...servers.types import FailureKind, Json, Outcome, Row, RowError, Tool, ToolResult, Transcript
from .lines import MAX_LINE_BYTES, LineProcess, Silent

#: Below the environment's own limits, so that the process is killed by whoever started it.
STEP_S, VERIFY_S, DESCRIBE_S = 25.0, 45.0, 30.0
SHAPE = 'it answers {"tools": [{"name", "description", "parameters"}]}'


def environment(target: str) -> type[Environment]:
    """The environment that a command plays. Raises `DefinitionError`."""
    try:
        command = shlex.split(target)
    except ValueError as error:
        raise DefinitionError(f"{target!r} is no command: {error}") from None
    if not command:
        raise DefinitionError("the command is empty")
    described = _describe(command)
    try:
        tools = [replace(Tool.from_any(item), read_only=False) for item in described["tools"]]  # one question at a time
    except (AttributeError, RowError) as error:
        raise DefinitionError(f"{command[0]}: `describe` names a tool that is none: {error}") from None
    body: dict[str, Any] = {
        "__doc__": str(described.get("description") or "A program that speaks JSON lines."),
        "name": str(described.get("name") or "jsonl_worker"),
        "max_turns": described.get("max_turns"),
        "command": command,
        "tools": tuple(passed_on(tool, partial(_step, tool.name)) for tool in tools),
    }
    return type("JsonlWorker", (JsonlWorker,), body)


def _describe(command: Sequence[str]) -> Json:
    """Ask a process of its own, which the end of its input ends."""
    try:
        line, _, more = _output(command, b'{"op": "describe"}\n').partition(b"\n")
        answer = json.loads(line)
    except TimeoutError:
        raise DefinitionError(f"{command[0]} did not end within {DESCRIBE_S:g} s of the end of its input") from None
    except OSError as error:
        raise DefinitionError(f"{command[0]} cannot be started: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise DefinitionError(f"{command[0]} answered no JSON object to `describe`; {SHAPE}") from None
    if not isinstance(answer, dict) or not isinstance(answer.get("tools"), list):
        raise DefinitionError(f"{command[0]}: `describe` names no tools; {SHAPE}")
    if more:
        raise DefinitionError(
            f"{command[0]} wrote more than one line; what is no answer belongs on stderr: {more!r:.80}"
        )
    return answer


def _output(command: Sequence[str], question: bytes) -> bytes:
    """What a command answers to one input, or the beginning of what never ends. Nothing that it started outlives it:
    not a shell's children either. Raises `TimeoutError`."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            with suppress(BrokenPipeError):  # it need not read what it is asked
                process.stdin.write(question)
                process.stdin.close()
            return _read(process.stdout.fileno(), monotonic() + DESCRIBE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _read(pipe: int, end: float) -> bytes:
    output = bytearray()
    while len(output) <= MAX_LINE_BYTES:
        if not select([pipe], [], [], max(0.0, end - monotonic()))[0]:
            raise TimeoutError
        piece = os.read(pipe, 1 << 16)
        if not piece:
            break
        output += piece
    return bytes(output)


async def _step(name: str, environment: JsonlWorker, arguments: bytes) -> ToolResult:
    return await environment.step(name, json.loads(arguments))


class JsonlWorker(Environment):
    """Base of what `environment` makes."""

    command: ClassVar[Sequence[str]] = ()
    _process: LineProcess | None = None

    async def reset(self, row: Row) -> str | None:
        self._process = await LineProcess.start(self.command)
        self._rewards: list[float] = []
        self._steps = 0
        asked = {"op": "reset", "prompt": list(row.prompt), "data": dict(row.data), "seed": self.seed}
        answer = await self._ask(asked, STEP_S)
        self._offered = answer.get("tools")
        return answer.get("prompt")

    def tools_for(self, row: Row) -> Iterable[str | Tool]:
        return self.tool_specs if self._offered is None else self._offered

    async def step(self, name: str, arguments: Json) -> ToolResult:
        answer = await self._ask({"op": "step", "tool": name, "arguments": arguments}, STEP_S)
        if answer.get("reward") is not None:
            self._rewards.append(finite_number(answer["reward"], "a step"))
        result = ToolResult(_text(answer.get("text")), _flag(answer, "error"), _flag(answer, "done"))
        self._steps += not result.is_error
        return result

    async def verify(self, transcript: Transcript) -> Any:
        asked = {
            "op": "verify",
            "answer": transcript.answer,
            "messages": list(transcript.messages),
            "ending": transcript.ending.value,
        }
        answer = await self._ask(asked, VERIFY_S)
        assert self._process is not None
        await self._process.finish()
        reward, components = answer.get("reward"), _components(answer)
        if reward is None:
            return components or self._added()
        return Outcome(transcript.ending, finite_number(reward, "verify"), components)

    def _added(self) -> float:
        """The steps' rewards. An episode in which the policy did nothing is its own affair."""
        if self._steps and not self._rewards:
            raise SessionFailure("neither a step nor verify brought a reward", FailureKind.VERIFIER_ERROR)
        return fsum(self._rewards)

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.close()

    async def _ask(self, message: Json, timeout_s: float) -> Json:
        assert self._process is not None
        try:
            return _unbroken(await self._process.ask(message, timeout_s))
        except Silent as error:
            raise ToolTimeout(str(error)) from None


def _text(value: object) -> str:
    """Text as it is, nothing as nothing, anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _flag(answer: Json, key: str) -> bool:
    """Raises `SessionFailure`: "true" or 1, taken for no, would let an episode go on that is over."""
    value = answer.get(key)
    if value is None or isinstance(value, bool):
        return value is True
    raise SessionFailure(f"the program answered {key} {value!r:.80}, which is neither true nor false")


def _components(answer: Json) -> Json:
    value = answer.get("components")
    if value is None or isinstance(value, dict):
        return value or {}
    raise SessionFailure(
        f"the program answered components {value!r:.80}, which are no object", FailureKind.VERIFIER_ERROR
    )


def _unbroken(answer: Json) -> Json:
    if answer.get("failure"):
        raise SessionFailure(str(answer["failure"]))
    return answer
