"""The one program that runs jobs, in every backend: usually PID 1 of a container or of a name space, standard library
only, Python 3.8 or later, Linux.

    python -I -S worker.py [ROOT [PROCESSES [REFUSED]]]        or: python -I -S -c SOURCE [...]

It speaks binary frames over its stdin and stdout, and runs one job at a time. A Python job is a fork of this
interpreter, which is warm; anything else is executed. `ROOT` (default /tmp) is the one place to write; jobs run in a
folder of it, and after each job all of it is emptied and every process ended, or the worker ends and is replaced.
PROCESSES bounds the processes of a slot whose user is no other slot's (RLIMIT_NPROC); where it is missing or 0, a
cgroup must. REFUSED is a filter of system calls for jobs, in hexadecimal (`seccomp.py`).

Jobs have the worker's user, so this protects it and the jobs after them:
- It is not dumpable: its memory and its descriptors cannot be reached through /proc or ptrace.
- A job's bytes (files, argv, stdin, output) are never Python objects here: they lie in mappings that are unmapped with
  the job, and the fork decodes them. What a later job can find in its own copy of this memory are names of processes.
- A job's first act is to close this program's descriptors.
- As PID 1 it cannot be killed or stopped from inside; where a job changed its limits or priority, it is replaced.
"""

from __future__ import annotations

import _signal  # pyright: ignore[reportMissingImports]  (`signal` without the enums around it)
import _thread
import atexit
import ctypes
import errno
import fcntl
import gc
import io
import mmap
import os
import resource
import select
import signal
import site
import stat
import struct
import sys
import threading
import time
from contextlib import suppress
from importlib.machinery import SourceFileLoader

TYPE_CHECKING = False  # without loading `typing`, which jobs may bring themselves
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    Buffer = bytes | bytearray | memoryview | mmap.mmap

# Frames: type and length of the body. To the worker:
JOB, STDIN, END, KILL = 1, 2, 3, 4
# From it:
READY, OUT, FILE, RESULT, BROKEN = 11, 12, 13, 14, 15
HEADER = struct.Struct("!BI")
#: A job's body begins with: wall s, CPU s, memory bytes, processes, output bytes, bytes of files, flags, bytes of
#: stdin; it ends with its stdin.
LIMITS = struct.Struct("!ddQIQQBQ")
TALK, COLLECT = 1, 2
COUNT = struct.Struct("!I")
#: A result's body begins with: verdict, exit code (-1: none), flags, wall s, CPU s, lengths of stdout and stderr.
OUTCOME = struct.Struct("!BhBddII")
TRUNCATED, SPENT = 1, 2
VERDICTS = ("completed", "failed", "timeout", "crashed", "out_of_memory", "output_limit")
COMPLETED, FAILED, TIMEOUT, CRASHED, OUT_OF_MEMORY, OUTPUT_LIMIT = range(6)

PIPE_BYTES = 65536
TICK_S = 0.05  # between two looks at what a job uses
MAX_PENDING_STDIN = 16 << 20
MAX_OPEN_FILES = 256
SPARE_FILES = 256 << 10  # what a job's files may take beside their bytes: their last pages, folders
NICE = 19  # of jobs, so that a crowd of them cannot keep the worker from ending it in time
FOLDER = "job"  # of ROOT: where jobs run
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 4, 22, 36, 38
SECCOMP_MODE_FILTER = 2
SYS_PIDFD_OPEN = 434  # Python 3.8 has no name for it
GETDENTS64 = {"x86_64": 217}.get(os.uname().machine, 61)

#: Imported once here, so that jobs need not: most programs want some of them.
WARM = "bisect collections copy dataclasses datetime decimal enum fractions functools heapq itertools json math"
WARM += " operator random re statistics string threading traceback typing"
#: Modules that a starting interpreter loads before a program's own folder is on its path: those cannot be shadowed.
FIRST = frozenset(
    [
        "abc",
        "codecs",
        "encodings",
        "genericpath",
        "io",
        "os",
        "posixpath",
        "site",
        "stat",
        "zipimport",
        "_collections_abc",
    ]
)

libc = ctypes.CDLL(None, use_errno=True)


class Limits:
    def __init__(self, body: mmap.mmap) -> None:
        fields = LIMITS.unpack_from(body)
        self.wall_s, self.cpu_s, self.memory, self.processes, self.output, self.files, flags, self.stdin = fields
        self.talk, self.collect = bool(flags & TALK), bool(flags & COLLECT)


# ---- frames


def read_into(fd: int, view: memoryview) -> bool:
    """Fill the view; False where the stream has ended."""
    done = 0
    while done < len(view):
        count = os.readv(fd, [view[done:]])
        if count == 0:
            return False
        done += count
    return True


def write_all(fd: int, *parts: Buffer) -> None:
    views = [memoryview(part) for part in parts if len(part)]
    while views:
        count = os.writev(fd, views)
        while views and count >= len(views[0]):
            count -= len(views.pop(0))
        if count:
            views[0] = views[0][count:]


def mapping(size: int) -> mmap.mmap:
    """Private memory that is gone, not merely free, once closed."""
    return mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class Host:
    """The other end of the frames."""

    def __init__(self, source: int, sink: int) -> None:
        self.source, self.sink = source, sink
        self._header = bytearray(HEADER.size)

    def read(self) -> tuple[int, int, mmap.mmap | None]:
        """The next frame as (type, length, mapping); (0, 0, None) where the host has gone."""
        if not read_into(self.source, memoryview(self._header)):
            return 0, 0, None
        kind, length = HEADER.unpack(self._header)
        body = mapping(length)
        with memoryview(body) as view:
            if not read_into(self.source, view[:length]):
                return 0, 0, None
        return kind, length, body

    def write(self, kind: int, *parts: Buffer) -> None:
        write_all(self.sink, HEADER.pack(kind, sum(map(len, parts))), *parts)


# ---- what a job wrote


class Tail:
    """A pipe's output: all of it up to the limit, and of more the end."""

    def __init__(self, fd: int, limit: int) -> None:
        self.fd, self.limit, self.end, self.total, self.open = fd, limit, 0, 0, True
        self.memory = mapping(limit + 4 * PIPE_BYTES)
        os.set_blocking(fd, False)

    def fill(self) -> int:
        """Take what is there; the number of bytes, 0 at the end of the stream, -1 where nothing is there now."""
        if self.end + PIPE_BYTES > len(self.memory):
            self.memory.move(0, self.end - self.limit, self.limit)
            self.end = self.limit
        with memoryview(self.memory) as view:
            try:
                count = os.readv(self.fd, [view[self.end : self.end + PIPE_BYTES]])
            except BlockingIOError:
                return -1
        self.end += count
        self.total += count
        self.open = count > 0
        return count

    @property
    def exceeded(self) -> bool:
        return self.total > self.limit

    def kept(self) -> memoryview:
        return memoryview(self.memory)[max(0, self.end - self.limit) : self.end]

    def close(self) -> None:
        os.close(self.fd)
        self.memory.close()


class Stream(Tail):
    """The stdout of a conversation: passed on as it comes."""

    def __init__(self, fd: int, limit: int, host: Host) -> None:
        super().__init__(fd, 0)
        self.limit, self.host = limit, host

    def fill(self) -> int:
        self.end = 0
        count = super().fill()
        if count > 0:
            with memoryview(self.memory) as view:
                self.host.write(OUT, view[:count])
        self.end = 0
        return count


class Feed:
    """A job's stdin: what its frame ended with, and in a conversation what comes later."""

    def __init__(self, fd: int, ended: bool) -> None:
        self.fd, self.parts, self.pending, self.ended = fd, [], 0, ended
        os.set_blocking(fd, False)

    def add(self, body: mmap.mmap, start: int, end: int) -> None:
        """Feed a part of a mapping, which is closed afterwards."""
        if self.fd is None or start == end:
            body.close()
            return
        self.parts.append([body, start, end])
        self.pending += end - start

    def flush(self) -> None:
        """Write what the pipe takes."""
        while self.parts and self.fd is not None:
            body, start, end = self.parts[0]
            try:
                with memoryview(body) as view:
                    count = os.writev(self.fd, [view[start:end]])
            except BlockingIOError:
                return
            except OSError:  # nobody reads any more
                self.close()
                return
            self.parts[0][1] += count
            self.pending -= count
            if start + count == end:
                self.parts.pop(0)[0].close()
        if self.ended:
            self.close()

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
        self.fd, self.pending = None, 0
        while self.parts:
            self.parts.pop()[0].close()


# ---- the processes of a job


class Herd:
    """All processes of a job, whatever they did to get away."""

    def __init__(self) -> None:
        self.alone = os.getpid() == 1  # then every other process here is the job's
        self.status, self.resident = None, _resident(os.getpid())
        if not self.alone:
            libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def members(self) -> list[int]:
        if self.alone:
            return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]
        found, fresh = [], [os.getpid()]
        while fresh:
            fresh = [child for pid in fresh for child in _children(pid)]
            found += fresh
        return found

    def reap(self, main: int, options: int = os.WNOHANG) -> bool:
        """Bury the dead; False where no process is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, options)
                if pid == 0:
                    return True
                if pid == main:
                    self.status = status
        except ChildProcessError:
            return False

    def end(self, main: int) -> None:
        """Kill all of them until none is left."""
        while True:
            if self.alone:
                with suppress(ProcessLookupError):
                    os.kill(-1, signal.SIGKILL)
                self.reap(main, 0)
                return
            for pid in self.members():
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            if not self.reap(main):
                return
            time.sleep(0.001)

    def usage(self) -> tuple[int, float, int]:
        """Bytes of memory and seconds of CPU that the living use, and how many threads they are.

        Of what forks share with this program, nothing is counted.
        """
        memory, cpu, threads = 0, 0.0, 0
        for pid in self.members():
            try:
                with open(f"/proc/{pid}/stat", "rb") as file:
                    fields = file.read().rsplit(b")", 1)[1].split()
            except (OSError, IndexError):
                continue
            memory += max(0, int(fields[21]) * PAGE - self.resident)
            cpu += sum(map(int, fields[11:15])) / TICKS
            threads += int(fields[17])
        return memory, cpu, threads

    def share(self) -> int:
        """Bytes of memory with what processes share counted once: exact, and slow."""
        total = 0
        for pid in self.members():
            try:
                with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                    total += next(int(line.split()[1]) for line in file if line.startswith(b"Pss:")) * 1024
            except PermissionError:  # it does not let itself be looked into: what it shares is counted as its own
                total += _resident(pid)
            except (OSError, StopIteration):
                continue
        return total


#: Version 2 and version 1 of cgroups.
CGROUP_MEMORY = (
    ("/sys/fs/cgroup/memory.stat", (b"anon ", b"shmem ")),
    ("/sys/fs/cgroup/memory/memory.stat", (b"rss ", b"shmem ")),
)
HARD_LIMITS = {
    which: resource.getrlimit(which)[1] for name, which in vars(resource).items() if name.startswith("RLIMIT_")
}
#: What whoever began this ignores (`nohup`, a shell's background), and no program shall; two are Python's own.
IGNORED = [
    number
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}
    if signal.getsignal(number) is signal.SIG_IGN
]
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def _children(pid: int) -> list[int]:
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found = []
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
        except OSError:
            continue
    return found


def pidfd_open(pid: int) -> int:
    opened = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else libc.syscall(SYS_PIDFD_OPEN, pid, 0)
    if opened < 0:
        raise OSError(ctypes.get_errno(), "pidfd_open")
    return opened


def oom_kills() -> int:
    """How many processes of this container the kernel has killed for want of memory (cgroups 2 and 1)."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(path) as file:
                return sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
        except OSError:
            continue
    return 0


def cgroup_memory() -> int | None:
    """Bytes that this container holds, without what the kernel can drop; None where that cannot be read."""
    for path, names in CGROUP_MEMORY:
        try:
            with open(path, "rb") as file:
                return sum(int(line.split()[1]) for line in file if line.startswith(names))
        except OSError:
            continue
    return None


# ---- a job, watched


class Run:
    """One job from its fork to its verdict."""

    def __init__(self, worker: Worker, limits: Limits) -> None:
        self.worker, self.host, self.limits = worker, worker.host, limits
        self.verdict = None
        self.gone = False  # the host has left
        self.pid = -1
        self.ends = []  # the job's ends of the pipes

    def open(self) -> None:
        out, err = self._pipe(), self._pipe()
        self.out = Stream(out, self.limits.output, self.host) if self.limits.talk else Tail(out, self.limits.output)
        self.err = Tail(err, self.limits.output)
        self.feed = Feed(self._pipe(reading=False), ended=not self.limits.talk)
        self.setup = self._pipe()

    def _pipe(self, reading: bool = True) -> int:
        ours, theirs = os.pipe()
        if not reading:
            ours, theirs = theirs, ours
        self.ends.append(theirs)
        return ours

    def watch(self, pid: int, body: mmap.mmap, length: int) -> None:
        """Wait for the end of the job's first process, or of its limits; then end all of it."""
        self.pid, self.started, self.cpu_before = pid, time.monotonic(), children_cpu()
        self.worker.herd.status = None
        for end in self.ends:
            os.close(end)
        self.feed.add(body, length - self.limits.stdin, length)
        self.feed.flush()
        try:
            self.pidfd = pidfd_open(pid)
            self._wait()
        finally:
            self.wall_s = time.monotonic() - self.started
            self.worker.herd.end(pid)
        os.close(self.pidfd)
        for tail in (self.out, self.err):
            while tail.fill() > 0:
                pass
        self.cpu_s = children_cpu() - self.cpu_before

    def _wait(self) -> None:
        deadline = self.started + self.limits.wall_s
        look = self.started + TICK_S
        while self.verdict is None and not self.gone:
            now = time.monotonic()
            if now >= deadline:
                self.verdict = TIMEOUT
            elif now >= look:
                self._look()
                look = time.monotonic() + TICK_S
            elif self._handle(self._poll((min(deadline, look) - now) * 1000)):
                return

    def _poll(self, wait_ms: float) -> list[int]:
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        for tail in (self.out, self.err):
            if tail.open:
                poll.register(tail.fd, select.POLLIN)
        if self.feed.fd is not None and self.feed.pending:
            poll.register(self.feed.fd, select.POLLOUT)
        if self.feed.pending <= MAX_PENDING_STDIN:
            poll.register(self.host.source, select.POLLIN)
        return [fd for fd, _ in poll.poll(max(1.0, wait_ms))]

    def _handle(self, ready: list[int]) -> bool:
        """Move bytes; True where the job's first process has ended."""
        for fd in ready:
            if fd == self.host.source:
                self._listen()
            elif fd == self.feed.fd:
                self.feed.flush()
            elif fd != self.pidfd:
                self._drink(self.out if fd == self.out.fd else self.err)
        return self.pidfd in ready

    def _drink(self, tail: Tail) -> None:
        tail.fill()
        if tail.exceeded:
            self.verdict = OUTPUT_LIMIT

    def _listen(self) -> None:
        kind, length, body = self.host.read()
        if body is None:
            self.gone = True
        elif kind == STDIN:
            self.feed.add(body, 0, length)
            self.feed.flush()
        elif kind == END:
            self.feed.ended = True
            self.feed.flush()
        elif kind == KILL:
            self.verdict = CRASHED

    def _look(self) -> None:
        """What only a look can find out: memory, CPU and threads of the whole job, and what it has written."""
        herd, limits = self.worker.herd, self.limits
        herd.reap(self.pid)
        memory, cpu, threads = herd.usage()
        if cpu + children_cpu() - self.cpu_before > limits.cpu_s:
            self.verdict = TIMEOUT
        elif threads > limits.processes:  # before the memory: to look into a hundred processes that fork takes seconds
            self.verdict = CRASHED
        elif self._over_memory(memory):
            self.verdict = OUT_OF_MEMORY
        elif self._overfull():
            self.verdict = OUTPUT_LIMIT

    def _over_memory(self, estimate: int) -> bool:
        held = self.worker.held()
        if held is not None:
            return held - self.worker.written() > self.limits.memory
        return estimate > self.limits.memory and self.worker.herd.share() > self.limits.memory

    def _overfull(self) -> bool:
        return self.worker.written() > self.limits.files + SPARE_FILES

    def judge(self, starved: bool) -> tuple[int, int]:
        """(verdict, exit code)"""
        status = self.worker.herd.status
        if self.verdict is None and (self.out.exceeded or self.err.exceeded or self._overfull()):
            self.verdict = OUTPUT_LIMIT
        if self.verdict is None and starved:  # whichever of its processes it was that the kernel killed
            self.verdict = OUT_OF_MEMORY
        if self.verdict is not None or status is None:
            return (CRASHED if self.verdict is None else self.verdict), -1
        if os.WIFEXITED(status):
            code = os.WEXITSTATUS(status)
            if code and self._out_of_memory():
                return OUT_OF_MEMORY, code
            return (FAILED if code else COMPLETED), code
        return self._of_signal(os.WTERMSIG(status)), -1

    def _out_of_memory(self) -> bool:
        """Whether a Python program died of its memory limit: it says so in its last line."""
        memory, end = self.err.memory, self.err.end  # searched in place: no line of a job's is an object here
        at = memory.rfind(b"MemoryError", max(0, end - 200), end)
        after = at + len(b"MemoryError")
        begins = at == 0 or (at > 0 and memory[at - 1] == ord("\n"))
        return begins and memory.find(b"\n", at, end - 1) < 0 and (after >= end or memory[after] in b":\n")

    def _of_signal(self, number: int) -> int:
        if number == signal.SIGXCPU or (number == signal.SIGKILL and self.cpu_s >= self.limits.cpu_s):
            return TIMEOUT
        return OUTPUT_LIMIT if number == signal.SIGXFSZ else CRASHED

    def close(self) -> None:
        self.out.close()
        self.err.close()
        self.feed.close()
        os.close(self.setup)


def children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Worker:
    def __init__(self, root: str, processes: str = "0", refused: str = "") -> None:
        self.root, self.folder = root, os.path.join(root, FOLDER)
        self.processes, self.refused = int(processes), bytes.fromhex(refused)
        self.herd, self.broom = Herd(), Broom(root)
        self.host = Host(*take_streams())
        self.standing, self.starved = standing(), oom_kills()
        self.held_before = cgroup_memory() or 0
        self.empty = self._used()

    def serve(self) -> Script | None:
        """Run jobs until the host leaves: None; in the fork that is a Python job: the program to become."""
        self.host.write(READY, sys.version.split()[0].encode())
        while True:
            kind, length, body = self.host.read()
            if body is None:
                return None
            if kind != JOB:
                continue  # late words to a job that has ended
            program = self._run(body, length)
            if program is not None:
                return program

    def _run(self, body: mmap.mmap, length: int) -> Script | None:
        run = Run(self, Limits(body))
        run.open()
        pid = os.fork()
        if pid == 0:
            return Start(self, run, body).program()
        run.watch(pid, body, length)
        broken = os.read(run.setup, 400)  # what the fork said before it was a job
        if broken or run.gone:
            self.host.write(BROKEN, broken)
            sys.exit(1)
        self._report(run)
        return None

    def _report(self, run: Run) -> None:
        flags = TRUNCATED if run.out.exceeded or run.err.exceeded else 0
        if run.limits.collect and not self._collect(run.limits.files):
            flags |= TRUNCATED
        before, self.starved = self.starved, oom_kills()
        verdict, code = run.judge(self.starved > before)
        clean = self.broom.wipe() and standing() == self.standing
        out, err = (b"" if run.limits.talk else run.out.kept()), run.err.kept()
        flags |= 0 if clean else SPENT
        outcome = OUTCOME.pack(verdict, code, flags, run.wall_s, run.cpu_s, len(out), len(err))
        self.host.write(RESULT, outcome, out, err)
        del out, err  # a mapping with views of it cannot be closed
        run.close()
        if not clean:
            sys.exit(1)

    def _used(self) -> int:
        at = os.statvfs(self.root)
        return (at.f_blocks - at.f_bfree) * at.f_frsize

    def written(self) -> int:
        """Bytes that the job has in its files; nothing is known of a root that others write to as well."""
        return self._used() - self.empty if self.herd.alone else 0

    def held(self) -> int | None:
        """Bytes of memory that a job and its files hold; None where no cgroup counts them."""
        memory = cgroup_memory() if self.herd.alone else None
        return None if memory is None else memory - self.held_before

    def _collect(self, limit: int) -> bool:
        """Send the job's files, from a fork that takes their bytes with it; False where some were left out."""
        pid = os.fork()
        if pid == 0:
            try:
                os._exit(0 if send_files(self.host, self.folder, limit) else 3)
            finally:
                os._exit(4)
        return os.waitpid(pid, 0)[1] == 0


def take_streams() -> tuple[int, int]:
    """Move the frames' streams away from 0 and 1, where libraries and jobs would look for them."""
    source, sink = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (0, 1))
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    return source, sink


def standing() -> tuple[object, ...]:
    """What a job could change of this process from outside."""
    limits = [resource.getrlimit(which) for which in HARD_LIMITS]
    return os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0), os.sched_getscheduler(0), limits


def send_files(host: Host, folder: str, limit: int) -> bool:
    whole = not os.path.islink(folder)
    for path, _, names in os.walk(folder) if whole else ():
        for name in names:
            try:
                content = read_file(os.path.join(path, name), limit)
            except OSError:
                whole = False
                continue
            if content is None:
                continue
            limit -= len(content)
            relative = os.fsencode(os.path.relpath(os.path.join(path, name), folder))
            host.write(FILE, COUNT.pack(len(relative)), relative, content)
    return whole


def read_file(path: str, limit: int) -> bytes | None:
    """A regular file's bytes; None for a link, a pipe, a socket. Raises OSError where it is too large."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return None
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError("too large")
    return content


class Broom:
    """Empties the root. Names of files are no objects here: later jobs could find them in their copy of this memory."""

    HALF = 32768
    NAME = 19  # its place in a directory entry; of the entry's length: 16
    REMOVE_FOLDER = 0x200

    def __init__(self, root: str) -> None:
        self.root, self.spare = root, 0
        self.memory = mapping(2 * self.HALF)
        self.entries = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    def wipe(self) -> bool:
        """False where something stays. Folders are made flat first: no depth or name can be too long."""
        try:
            if os.stat(self.root).st_mode & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(self.root, 0o700)
            fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return False
        try:
            while self._each(fd, self._remove, 0):
                pass
            return True
        except OSError:
            return False
        finally:
            os.close(fd)
            ctypes.memset(self.entries, 0, len(self.memory))

    def _each(self, fd: int, remove: Callable[[int, ctypes.c_void_p], None], at: int) -> int:
        """Remove every entry of a folder; how many there were. `at`: which half of the memory holds them."""
        seen = 0
        os.lseek(fd, 0, os.SEEK_SET)
        while True:
            size = must(libc.syscall(GETDENTS64, fd, ctypes.c_void_p(self.entries + at), self.HALF))
            if size == 0:
                return seen
            here, end = at, at + size
            while here < end:
                if not self._itself(here + self.NAME):
                    remove(fd, ctypes.c_void_p(self.entries + here + self.NAME))
                    seen += 1
                here += int.from_bytes(self.memory[here + 16 : here + 18], sys.byteorder)

    def _itself(self, at: int) -> bool:
        dot, end = ord("."), 0
        first, second, third = self.memory[at], self.memory[at + 1], self.memory[at + 2]
        return first == dot and (second == end or (second == dot and third == end))

    def _remove(self, root: int, name: ctypes.c_void_p) -> None:
        if self._unlinked(root, name):
            return
        must(libc.fchmodat(root, name, 0o700, 0))
        fd = must(libc.openat(root, name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
        try:
            while self._each(fd, lambda folder, inner: self._lift(root, folder, inner), self.HALF):
                pass
        finally:
            os.close(fd)
        must(libc.unlinkat(root, name, self.REMOVE_FOLDER))

    def _lift(self, root: int, folder: int, name: ctypes.c_void_p) -> None:
        """Remove a file of a folder, or move a folder of it up to the root."""
        if self._unlinked(folder, name):
            return
        must(libc.fchmodat(folder, name, 0o700, 0))
        for _ in range(1 << 20):
            self.spare += 1
            if libc.renameat(folder, name, root, b".%d" % self.spare) == 0:
                return
            if ctypes.get_errno() not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                break
        must(-1)

    def _unlinked(self, folder: int, name: ctypes.c_void_p) -> bool:
        """False for a folder."""
        if libc.unlinkat(folder, name, 0) == 0:
            return True
        if ctypes.get_errno() not in (errno.EISDIR, errno.EPERM):
            must(-1)
        return False


def must(result: int) -> int:
    if result == -1:
        raise OSError(ctypes.get_errno(), "while the root is emptied")
    return result


# ---- in the fork


class Start:
    """A fork on its way to become the job."""

    def __init__(self, worker: Worker, run: Run, body: mmap.mmap) -> None:
        self.worker, self.run, self.body, self.limits = worker, run, memoryview(body), run.limits
        self.at = LIMITS.size

    def program(self) -> Script:
        """The Python program to become; executes anything else."""
        try:
            return self._prepare()
        except BaseException as error:  # the boundary of our side of a job: whatever it is, no job has begun
            os.write(3, f"{type(error).__name__}: {error}"[:300].encode(errors="replace"))
            os._exit(1)

    def _prepare(self) -> Script:
        self._streams()
        os.setsid()
        os.nice(NICE)
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        for number in IGNORED:
            _signal.signal(number, _signal.SIG_DFL)
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        argv = [os.fsdecode(bytes(part)) for part in self._list()]
        os.mkdir(self.worker.folder, 0o700)
        os.chdir(self.worker.folder)
        names = []
        for _ in range(self._count()):
            name, content = os.fsdecode(bytes(self._part())), self._part()
            write_file(name, content)
            names.append(name)
        self._limit()
        refuse_calls(self.worker.refused)
        if argv[0] == "python" and len(argv) > 1 and not argv[1].startswith("-"):
            os.close(3)
            return Script(argv, names, self)
        execute(argv)

    def _streams(self) -> None:
        out, err, stdin, setup = self.run.ends
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.dup2(stdin, 0)
        os.dup2(setup, 3, inheritable=False)  # after the others, one of which may be 3
        os.closerange(4, MAX_OPEN_FILES)

    def _count(self) -> int:
        (count,) = COUNT.unpack_from(self.body, self.at)
        self.at += COUNT.size
        return count

    def _part(self) -> memoryview:
        size = self._count()
        self.at += size
        return self.body[self.at - size : self.at]

    def _list(self) -> list[memoryview]:
        return [self._part() for _ in range(self._count())]

    def _limit(self) -> None:
        limits = self.limits
        cpu = int(limits.cpu_s) + 1
        bound(resource.RLIMIT_CPU, cpu, cpu + 1)
        bound(resource.RLIMIT_FSIZE, limits.files, limits.files)
        # Stacks of threads count as data: room for those it may have, of which it cannot use more than the looks allow.
        data = limits.memory + limits.processes * (8 << 20)
        bound(resource.RLIMIT_DATA, data, data)
        if self.worker.processes:
            bound(resource.RLIMIT_NPROC, self.worker.processes, self.worker.processes)
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(score, b"1000")
        os.close(score)


def bound(which: int, soft: int, hard: int) -> None:
    """Set a limit, or the one that is there already where that is lower."""
    most = HARD_LIMITS[which]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(which, (soft, hard))


def write_file(name: str, content: Buffer) -> None:
    if "/" in name:
        os.makedirs(os.path.dirname(name), exist_ok=True)
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o755)
    write_all(file, content)
    os.close(file)


def refuse_calls(code: bytes) -> None:
    if not code:
        return
    lines = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(lines)))
    for option in ((PR_SET_NO_NEW_PRIVS, 1, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program)):
        if libc.prctl(*option, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "the filter of system calls")


def execute(argv: list[str]) -> NoReturn:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    program = sys.executable if argv[0] == "python" else argv[0]
    try:
        os.execvp(program, argv)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode(errors="replace"))
        os._exit(127 if missing else 126)


class Script:
    """A Python program, run as `python main.py` runs it."""

    def __init__(self, argv: list[str], names: list[str], start: Start) -> None:
        self.argv, self.start = argv, start  # to let go of what the fork had would cost it more than to keep it
        self.path = os.path.join(os.getcwd(), argv[1]) if argv[1] in names else os.path.realpath(argv[1])
        for name in names:  # a file of the job goes before a module that only this program needed
            top = name.split("/")[0]
            top = top[:-3] if top.endswith(".py") else top
            if top in sys.modules and top not in FIRST and top not in sys.builtin_module_names:
                del sys.modules[top]

    def become(self) -> NoReturn:
        """Never returns."""
        self.module = type(sys)("__main__")
        sys.modules["__main__"] = self.module
        sys.argv = self.argv[1:]
        sys.path.insert(0, os.path.dirname(self.path))
        if hasattr(sys, "orig_argv"):
            sys.orig_argv[:] = self.argv
        sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = STREAMS
        gc.enable()
        self._leave(self._code())

    def _code(self) -> int:
        try:
            self._execute()
            return 0
        except SystemExit as error:
            return exit_code(error)
        except BaseException as error:
            show(error)
            return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1

    def _execute(self) -> None:
        try:
            with io.FileIO(self.path) as file:
                source = file.readall()
        except OSError as error:
            text = f"{sys.executable}: can't open file {self.path!r}: [Errno {error.errno}] {error.strerror}\n"
            sys.stderr.write(text)
            raise SystemExit(2) from None
        fields = {"__file__": self.path, "__builtins__": __builtins__, "__cached__": None}
        if "__annotations__" in globals():  # as in every program before Python 3.14
            fields["__annotations__"] = {}
        vars(self.module).update(fields, __loader__=SourceFileLoader("__main__", self.path))
        exec(compile(source, self.path, "exec", dont_inherit=True), vars(self.module))

    def _leave(self, code: int) -> NoReturn:
        """What an interpreter does at its end, without tearing down all that this one had loaded before."""
        if _thread._count():  # threads that it waits for
            try:
                threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
            except BaseException as error:
                show(error)
        atexit._run_exitfuncs()
        flushed = _flush()
        self._clear()
        if not (_flush() and flushed):
            code = code or 120
        if code == -signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(code & 0xFF)

    def _clear(self) -> None:
        """Let the program's objects go, so that files are written out and `__del__` runs."""
        names = [name for name in vars(self.module) if name != "__builtins__"]
        for name in sorted(names, key=lambda name: not name.startswith("_")):
            vars(self.module)[name] = None
        gc.collect()


def exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code
    _flush()
    sys.stderr.write(f"{error.code}\n")
    return 1


def show(error: BaseException) -> None:
    """Say what a program died of, without the frames that are not its own."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)


def _flush() -> bool:
    good = True
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError):
            good = False
    return good


def text_streams() -> tuple[io.TextIOWrapper, io.TextIOWrapper, io.TextIOWrapper]:
    """The streams of a job, made before there is one: on pipes, which is what it will have there."""
    kept = [os.dup(fd) for fd in (0, 1, 2)]
    out, into = os.pipe()
    for fd, end in ((0, out), (1, into), (2, into)):
        os.dup2(end, fd)
    read = io.BufferedReader(io.FileIO(0, "rb", closefd=False))
    write, complain = (io.BufferedWriter(io.FileIO(fd, "wb", closefd=False)) for fd in (1, 2))
    streams = (
        io.TextIOWrapper(read, "utf-8", "surrogateescape"),
        io.TextIOWrapper(write, "utf-8", "surrogateescape"),
        io.TextIOWrapper(complain, "utf-8", "backslashreplace", line_buffering=True),
    )
    for fd, stream, mode in zip(kept, streams, "rww"):  # noqa: B905  (Python 3.8)
        stream.mode = mode  # pyright: ignore[reportAttributeAccessIssue]
        os.dup2(fd, stream.fileno())
        os.close(fd)
    os.close(out)
    os.close(into)
    return streams


def warm_up(root: str) -> None:
    """What every job would do for itself, done once."""
    path = os.environ.get("PATH", os.defpath)
    os.environ.clear()
    os.environ.update(PATH=path, HOME=os.path.join(root, FOLDER), TMPDIR=root, LANG="C.UTF-8")
    for which, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, MAX_OPEN_FILES)):
        bound(which, most, most)
    site.main()
    for name in WARM.split():
        __import__(name)
    # Nothing of what is here by now is ever garbage; and a collection would copy pages that forks share.
    gc.disable()
    gc.freeze()


def main(root: str = "/tmp", *settings: str) -> Script | None:
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which PID 1 does not feel
    os.umask(0o022)
    warm_up(root)
    return Worker(root, *settings).serve()


if __name__ == "__main__":
    STREAMS = text_streams()
    script = main(*sys.argv[1:])
    if script is not None:
        script.become()
