"""Attacks that use up: processes, memory, output, time, disk."""

from __future__ import annotations

from dataclasses import replace

from ..jobs import Verdict
from .attack import PRELUDE, SMALL, Attack, Limit

COMPLETED, CRASHED = Verdict.COMPLETED, Verdict.CRASHED
HELD_OR_ENDED = frozenset({COMPLETED, CRASHED})
MEMORY = frozenset({Verdict.OUT_OF_MEMORY})
FLOOD = frozenset({Verdict.OUTPUT_LIMIT})
TIME = frozenset({Verdict.TIMEOUT})

_COUNT_PROCESSES = """
born = 0
try:
    for _ in range(200):
        if os.fork() == 0:
            time.sleep(60)
        born += 1
except OSError:
    pass
time.sleep(0.5)
must(f"{born} processes and then no more", born <= 16)
end()
"""

_COUNT_THREADS = """
import threading
born = 0
try:
    for _ in range(200):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        born += 1
except RuntimeError:
    pass
time.sleep(0.5)
must(f"{born} threads and then no more", born <= 16)
print("BROKEN" if broken else "HELD", *held, flush=True)
os._exit(0)
"""

_BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""

_ONE = "kept = []\nwhile True:\n    kept.append(bytearray(b'x') * (1 << 20))\n"

_TOGETHER = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        kept = bytearray(b"x") * (40 << 20)
        time.sleep(60)
time.sleep(60)
"""

_HIDDEN = """
import ctypes, os, time
for _ in range(8):
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
        kept = bytearray(b"x") * (40 << 20)
        time.sleep(60)
time.sleep(60)
"""

_SHARED = """
import mmap
kept = []
while True:
    kept.append(mmap.mmap(-1, 1 << 20))
    kept[-1].write(b"x" * (1 << 20))
"""

_NAMELESS = """
kept = 0
try:
    for _ in range(400):
        file = os.memfd_create("x")
        kept += os.write(file, b"x" * (1 << 20))
except OSError:
    pass
must(f"{kept >> 20} MB in files of memory", kept <= 96 << 20)
end()
"""

_FLOOD = "import os\nwhile True:\n    os.write({fd}, b'x' * 65536)\n"

_DEAF = """
import os, signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
while True:
    time.sleep(60)
"""

_SPIN = "while True:\n    pass\n"

_SPIN_IN_CHILDREN = """
import os
while True:
    if os.fork() == 0:
        for _ in range(2_000_000):
            pass
        os._exit(0)
    os.wait()
"""

_STOPPED = "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n"

_BYTES = """
total = 0
try:
    for number in range(64):
        with open(f"/tmp/{number}", "wb", buffering=0) as file:
            for _ in range(4):
                total += file.write(b"x" * (1 << 20))
except OSError as error:
    held.append(errno.errorcode[error.errno])
time.sleep(0.3)
must(f"{total >> 20} MB and no more", total <= 8 << 20)
end()
"""

_FILES = """
number = 0
try:
    for number in range(60_000):
        os.close(os.open(f"/tmp/{number}", os.O_CREAT | os.O_WRONLY))
except OSError as error:
    must(f"{number} files and then {errno.errorcode[error.errno]}", True)
else:
    must(f"{number} files", False)
end()
"""

#: A slot may find the written bytes by looking, and then says so with a verdict, before the file system refuses.
_DISK = frozenset({COMPLETED, Verdict.OUTPUT_LIMIT})

ATTACKS = (
    Attack("counts the processes it may have", Limit.PROCESSES, PRELUDE + _COUNT_PROCESSES, HELD_OR_ENDED),
    Attack("counts the threads it may have", Limit.PROCESSES, PRELUDE + _COUNT_THREADS, HELD_OR_ENDED),
    Attack("fork bomb", Limit.PROCESSES, _BOMB, TIME | {CRASHED}, replace(SMALL, wall_s=1.5)),
    Attack("one process's memory", Limit.MEMORY, _ONE, MEMORY),
    Attack("memory of eight processes together", Limit.MEMORY, _TOGETHER, MEMORY),
    Attack("memory of processes that cannot be looked into", Limit.MEMORY, _HIDDEN, MEMORY),
    Attack("shared memory", Limit.MEMORY, _SHARED, MEMORY),
    Attack("files of memory", Limit.MEMORY, PRELUDE + _NAMELESS, MEMORY | {COMPLETED}),
    Attack("floods stdout", Limit.OUTPUT, _FLOOD.format(fd=1), FLOOD),
    Attack("floods stderr", Limit.OUTPUT, _FLOOD.format(fd=2), FLOOD),
    Attack("ignores every signal, in every session", Limit.WALL, _DEAF, TIME, replace(SMALL, wall_s=1)),
    Attack("stops itself", Limit.WALL, _STOPPED, TIME, replace(SMALL, wall_s=1)),
    Attack("spins", Limit.CPU, _SPIN, TIME, replace(SMALL, cpu_s=1, wall_s=8)),
    Attack("spins in children that end", Limit.CPU, _SPIN_IN_CHILDREN, TIME, replace(SMALL, cpu_s=1, wall_s=8)),
    Attack("fills /tmp with bytes", Limit.DISK, PRELUDE + _BYTES, _DISK),
    Attack("fills /tmp with files", Limit.DISK, PRELUDE + _FILES, _DISK),
)
