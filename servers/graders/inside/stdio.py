"""Inside a job: runs a program once for each input that arrives, as a process of its own with real descriptors.

Conversation: we say `ready`; then for each input `<bytes> <cpu seconds> <most output bytes>` and the input itself, and
the answer is `<exit status> <bytes of stdout> <bytes of stderr's end>` and both. A negative status is a signal.
The program is a fork of this process, which has compiled it. It reads a pipe and prints into a file, so that nothing
waits for a descriptor that a child of its own still holds. All of it is under the program's control if it likes: what
it can forge is its own output, and that is compared elsewhere.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import sys
from contextlib import suppress
from types import CodeType, ModuleType
from typing import BinaryIO

from .plain import allow_long_integers

PROGRAM = "solution.py"
STDERR_END = 600
F_GETPIPE_SZ = 1032


def run() -> None:
    """Serve the conversation; in each fork, become the program and return when it ends."""
    listen, speak = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    said, complained = _file(".stdout"), _file(".stderr")
    speak.write(b"ready\n")
    speak.flush()
    allow_long_integers()
    with open(PROGRAM, "rb") as file:
        code = compile(file.read(), PROGRAM, "exec", dont_inherit=True)
    while header := listen.readline():
        size, cpu_s, output_bytes = map(int, header.split())
        given = _pipe_of(listen.read(size))
        child = os.fork()
        if child == 0:
            os.close(listen.fileno())
            os.close(speak.fileno())
            _become(given, said, complained, cpu_s, output_bytes)
            _execute(code)
            return
        os.close(given)
        _answer(speak, child, said, complained)


def _file(name: str) -> int:
    """A file without a name, used again for every test."""
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(name)
    return fd


def _pipe_of(content: bytes) -> int:
    """The end of a pipe to read the content from; what a pipe does not hold is written by a process of its own."""
    given, give = os.pipe()
    # Mostly 65,536 bytes; far less where the user's pipes elsewhere, in another container too, have used up its share.
    if len(content) <= fcntl.fcntl(give, F_GETPIPE_SZ):
        os.write(give, content)
    elif os.fork() == 0:
        os.close(given)
        try:
            _write_all(give, content)
        finally:
            os._exit(0)
    os.close(give)
    return given


def _write_all(fd: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _become(given: int, said: int, complained: int, cpu_s: int, output_bytes: int) -> None:
    os.setsid()
    for target, fd in enumerate((given, said, complained)):
        os.dup2(fd, target)
        os.close(fd)
    _limit(resource.RLIMIT_CPU, cpu_s, cpu_s + 1)
    _limit(resource.RLIMIT_FSIZE, output_bytes, output_bytes)
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115


def _limit(what: int, soft: int, hard: int) -> None:
    _, most = resource.getrlimit(what)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(what, (soft, hard))


def _execute(code: CodeType) -> None:
    """As `python solution.py` would; returning (or raising) ends this process the way that its job's would."""
    main = ModuleType("__main__")
    main.__file__ = PROGRAM
    main.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    sys.argv = [PROGRAM]
    exec(code, main.__dict__)


def _answer(speak: BinaryIO, child: int, said: int, complained: int) -> None:
    status = _wait_for(child)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # what it left behind in its session
    output, end = _taken(said), _taken(complained)[-STDERR_END:]
    speak.write(b"%d %d %d\n" % (os.waitstatus_to_exitcode(status), len(output), len(end)))
    speak.write(output)
    speak.write(end)
    speak.flush()


def _wait_for(child: int) -> int:
    while True:
        pid, status = os.wait()  # a writer of input may end, too
        if pid == child:
            return status


def _taken(fd: int) -> bytes:
    """What the file holds; it is empty after that."""
    content = os.pread(fd, os.fstat(fd).st_size, 0)
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)
    return content
