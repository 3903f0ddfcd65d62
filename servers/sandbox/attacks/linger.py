"""Attacks that stay: daemons, signals at the worker, its frames, and remains that are hard to remove."""

from __future__ import annotations

from dataclasses import replace

from ..jobs import Verdict
from .attack import PRELUDE, SMALL, Attack, Limit

#: Stays away from the job's group, session, parent and pipes, and hears no signal that can be ignored.
_DAEMONS = """
import os, signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for fd in range(256):
                try:
                    os.close(fd)
                except OSError:
                    pass
            while True:
                try:
                    os.close(os.open("/tmp/daemon", os.O_CREAT | os.O_WRONLY))
                except OSError:
                    pass
                time.sleep(0.01)
        os._exit(0)
time.sleep(0.2)
os._exit(0)
"""

_RACES = """
import os
if os.fork() == 0:
    while True:
        if os.fork():
            os._exit(0)
        os.setsid()
os._exit(0)
"""

_FIND = """
import glob
must("no process of another job", {int(name) for name in os.listdir("/proc") if name.isdigit()} <= {1, os.getpid()})
must("nothing in /tmp", not set(os.listdir(os.environ["TMPDIR"])) - {os.path.basename(os.getcwd())})
must("nothing new for half a second", not time.sleep(0.5) and not glob.glob("/tmp/daemon"))
end()
"""

_SIGNALS = """
import os
for number in range(1, 65):
    for target in (1, -1):
        try:
            os.kill(target, number) if target == 1 or number not in (9, 19) else None
        except OSError:
            pass
os._exit(7)
"""

#: Signals for all go to everybody but the sender and PID 1; the child is there to be hit.
_ALL = """
import os, time
if os.fork() == 0:
    time.sleep(60)
os.kill(-1, {signal})
os.kill(os.getpid(), {signal})
"""

#: A result as the worker would send it, on everything that can be written to.
_FORGE = """
import os, struct
header = struct.Struct("!BI")
outcome = struct.Struct("!BhBddII").pack(0, 0, 0, 0.1, 0.1, 2, 0) + b"ok"
frame = header.pack(14, len(outcome)) + outcome
for fd in range(1024):
    try:
        os.set_blocking(fd, False)
        os.write(fd, frame)
    except OSError:
        pass
for pid in ("1", str(os.getppid()), "self"):
    for fd in range(64):
        try:
            os.write(os.open(f"/proc/{pid}/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK), frame)
        except OSError:
            pass
os._exit(7)
"""

_LIMITS_OF_WORKER = """
import resource
for name in ("NOFILE", "FSIZE", "CPU", "DATA", "NPROC"):
    attempt(name, lambda: resource.prlimit(1, getattr(resource, "RLIMIT_" + name), (1, 1)))
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
attempt("processors", lambda: os.sched_setaffinity(1, {0}))
os._exit(7)
"""

_TANGLE = """
import os
os.chdir("/tmp")
for _ in range(1500):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
open("x", "w").close()
os.chdir("/tmp")
os.makedirs("locked/inner")
open("locked/inner/file", "w").close()
os.chmod("locked/inner/file", 0)
os.chmod("locked/inner", 0)
os.chmod("locked", 0)
os.mkfifo("pipe")
os.symlink("/", "link")
open("a\\nb\\udcff".encode("utf-8", "surrogateescape"), "w").close()
os.chmod("/tmp", 0)
os._exit(7)
"""

_CLOSED = """
import os, time
os.closerange(0, 256)
time.sleep(60)
"""

SEVEN = frozenset({Verdict.FAILED})
TIMEOUT = frozenset({Verdict.TIMEOUT})

ATTACKS = (
    Attack("daemons of a job before", Limit.REMAINS, PRELUDE + _FIND, plant=_DAEMONS),
    Attack("processes that fork and end faster than they can be listed", Limit.REMAINS, PRELUDE + _FIND, plant=_RACES),
    Attack("a maze of folders, locked folders, odd names", Limit.REMAINS, PRELUDE + _FIND, plant=_TANGLE),
    Attack("every signal at the worker", Limit.WORKER, _SIGNALS, SEVEN, exit_code=7),
    Attack("kills all that it can", Limit.WORKER, _ALL.format(signal=9), frozenset({Verdict.CRASHED})),
    Attack("stops all that it can", Limit.WORKER, _ALL.format(signal=19), TIMEOUT, replace(SMALL, wall_s=1)),
    Attack("forges a result on every descriptor", Limit.WORKER, _FORGE, SEVEN, exit_code=7),
    Attack("changes the worker's limits", Limit.WORKER, PRELUDE + _LIMITS_OF_WORKER, SEVEN, exit_code=7),
    Attack("closes every stream", Limit.WALL, _CLOSED, TIMEOUT, replace(SMALL, wall_s=1)),
)
