"""SWE: find and mend a bug in a small repository. A workspace in the sandbox, hidden tests, no partial score.

The workspace is plain data: each `bash` command runs in a job of its own that starts with the workspace's files,
has no network, and hands back what it left. So nothing runs between two calls, and any replica can go on.
The score is 1 when the files behave as the right ones do in every hidden test (hidden.py), else 0; whether
`submit` was called does not matter, and changes to tests are set aside.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from random import Random
from typing import Annotated, Any

from pydantic import BaseModel, Field

from ...environment import Environment, ToolError, tool
from ...sandbox.frames import MAX_ENTRIES, check_files
from ...sandbox.jobs import Job, JobRefused, Limits, Result, Sandbox, Verdict
from ...types import Row, RowError, Transcript
from . import hidden
from .policies import POLICIES
from .repositories import HELD_OUT, BadRepository, Bug, load, names

COMMAND_LIMITS = Limits(wall_s=20.0, cpu_s=20.0, output_bytes=16_384)
#: Of all files together, and how many they and their folders are; what the hidden tests add still fits into a job's.
WORKSPACE_BYTES = COMMAND_LIMITS.files_bytes // 2
WORKSPACE_ENTRIES = MAX_ENTRIES // 2
#: Lines that `read_file` shows at most.
PAGE = 400
_QUIET = "export PYTHONDONTWRITEBYTECODE=1\nexec 2>&1\n"


def prompt_of(summary: str, files: Mapping[str, bytes], report: str) -> str:
    listed = "\n".join(sorted(files))
    return (
        f"{summary}\n\nThe repository's files:\n{listed}\n\nA user reports:\n{report.strip()}\n\n"
        "Find the cause and mend it, without changing what is right. `bash` runs commands in the repository's "
        "folder (such as `python -m unittest`), `read_file` and `edit_file` show and change files, `submit` ends "
        "the task. Tests that you cannot see decide."
    )


class Swe(Environment):
    """Find and mend a bug in a small repository; hidden tests decide."""

    splits = ("train", "eval")
    max_turns = 30
    tool_timeout_s = 60.0
    policies = POLICIES
    replayable = True

    class Data(BaseModel):
        repository: str
        bug: str

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        """Every bug of the split's repositories once, in an order drawn by `seed`."""
        if split not in cls.splits:
            raise RowError(f"no split {split!r:.60}; there are: {', '.join(cls.splits)}")
        chosen = [name for name in names() if (name in HELD_OUT) == (split == "eval")]
        tasks = [(name, bug) for name in chosen for bug in load(name).bugs.values()]
        Random(f"{split}:{seed}").shuffle(tasks)
        for name, bug in tasks[: len(tasks) if count is None else count]:
            yield _row(name, bug)

    async def reset(self, row: Row) -> None:
        self._open()

    def _open(self) -> None:
        """What the row alone says. Raises `RowError`."""
        try:
            self.repository = load(self.data.repository)
        except BadRepository as error:
            raise RowError(f"repository: {error}") from error
        if self.data.bug not in self.repository.bugs:
            there = ", ".join(self.repository.bugs)
            raise RowError(f"bug: {self.repository.name} has no {self.data.bug!r:.60}; there are: {there}")
        self.given = self.repository.with_bug(self.repository.bugs[self.data.bug])
        self.files: dict[str, bytes] = dict(self.given)

    @tool
    async def bash(self, command: str) -> str:
        """Run shell commands in the repository's folder. Nothing goes on running afterwards; files stay.

        Args:
            command: Such as "python -m unittest" or "grep -rn total .".
        """
        job = Job(("/bin/sh", "-c", _QUIET + command), self.files, limits=COMMAND_LIMITS, collect=True)
        try:
            result = await self.sandbox.run(job)
        except JobRefused as refused:  # the workspace is one that a job can have: it is the command
            raise ToolError(f"The command cannot be run: {refused}.") from None
        if result.exit_code is not None:
            self._keep({path: data for path, data in result.files.items() if "__pycache__" not in path})
        return _told(result)

    @tool(read_only=True)
    async def read_file(self, path: str, first_line: Annotated[int, Field(ge=1)] = 1) -> str:
        """Show a file with its line numbers.

        Args:
            path: Relative to the repository's folder.
            first_line: Where to begin; a long file is shown in parts.
        """
        lines = self._text(path).splitlines()
        shown = lines[first_line - 1 : first_line - 1 + PAGE]
        text = "\n".join(f"{number:>4}  {line}" for number, line in enumerate(shown, start=first_line))
        rest = len(lines) - (first_line - 1) - len(shown)
        return text + (f"\n({rest} more lines)" if rest > 0 else "")

    @tool
    async def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a text that stands exactly once in a file, or write a new file.

        Args:
            path: Relative to the repository's folder.
            old: The text to replace, with its indentation; empty to write a new file.
            new: What stands there afterwards.
        """
        if not old and path not in self.files:
            self._keep({**self.files, path: new.encode("utf-8", "surrogatepass")})
            return f"{path} was written."
        text = self._text(path)
        if (found := text.count(old) if old else 0) != 1:
            raise ToolError(f"{path} has that text {found} times; give one that stands there exactly once.")
        self._keep({**self.files, path: text.replace(old, new).encode("utf-8", "surrogatepass")})
        return f"{path} was changed."

    @tool(ends=True)
    async def submit(self) -> str:
        """Hand in the repository as it is now. This ends the task."""
        return "The repository was handed in."

    async def verify(self, transcript: Transcript) -> float:
        files = hidden.under_test(self.given, self.files)
        return float(await hidden.passes(self.sandbox, self.repository, files))

    def get_state(self) -> Any:
        return {path: b64encode(data).decode() for path, data in self.files.items()}

    def set_state(self, state: Any) -> None:
        self._open()
        self.files = {path: b64decode(data) for path, data in state.items()}

    def _keep(self, files: dict[str, bytes]) -> None:
        """What no job could have is the policy's mistake, told at once, and never met by a later job or by verify."""
        try:
            check_files(files, WORKSPACE_BYTES, WORKSPACE_ENTRIES)
        except JobRefused as refused:
            raise ToolError(f"The repository stays as it was: {refused}.") from None
        self.files = files

    def _text(self, path: str) -> str:
        if path not in self.files:
            raise ToolError(f"There is no file {path:.200}.")
        try:
            return self.files[path].decode()
        except UnicodeDecodeError:
            raise ToolError(f"{path} is no text.") from None


def _row(name: str, bug: Bug) -> Row:
    repository = load(name)
    return Row.of(prompt_of(repository.summary, repository.files, bug.report), repository=name, bug=bug.name)


def _told(result: Result) -> str:
    output = result.stdout.decode("utf-8", "replace")
    if result.truncated:
        output = f"(the beginning of the output is left out)\n{output}"
    if result.exit_code is not None:
        return f"{output}\n(exit status {result.exit_code})" if result.exit_code else output or "(no output)"
    return f"{output}\n({_ENDED[result.verdict]}; changes to files were dropped)"


_ENDED = {
    Verdict.TIMEOUT: f"stopped after {COMMAND_LIMITS.wall_s:g} seconds",
    Verdict.OUT_OF_MEMORY: f"stopped: more than {COMMAND_LIMITS.memory_mb} MB of memory",
    Verdict.OUTPUT_LIMIT: "stopped: too much output, or too many or too large files",
    Verdict.CRASHED: "ended by a signal",
}
