"""The backend without a daemon, for Linux: every slot is a bubblewrap sandbox with a worker as its PID 1.

What holds, whoever starts it: name spaces of its own for network (no interface but its loopback), processes, IPC and
mounts; a root file system that is read-only and holds the interpreter, its libraries and the system's programs, and
nothing else of the host's (this package is hidden where it lies among them); a private /tmp, the one place to write,
bounded in bytes and in files; no capability, no way to gain one, and no system calls that open the kernel wide
(`seccomp.py`). It dies with the process that started it. As root its user is one of nobody's, another for each slot; as
an ordinary user it needs user name spaces and is that user in the eyes of the host, 65534 in its own.

What holds less firmly than in a container: there is no memory cgroup and no pids cgroup. Processes and threads are
bounded by RLIMIT_NPROC, which counts per slot (as an ordinary user since Linux 5.14; before, it counts all that the
user runs). Memory is bounded for each process by RLIMIT_DATA and for the job as a whole by the worker, which looks
every 0.05 s and ends a job that it finds above its limit: between two looks a job can have more. Memory that the kernel
holds for a job (sockets, pipes) is bounded by nothing but the count of its descriptors; when the machine runs out, its
kernel ends the slot before anything else. CPU time is bounded; a share of the CPU is not.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import ExitStack, suppress
from pathlib import Path

from .frames import MEGABYTE, SLOT_FILES, SOURCE
from .jobs import Limits, SandboxUnavailable
from .seccomp import job_filter, slot_filter
from .slots import Slot

INSTALL = "bubblewrap is not installed: `apt-get install bubblewrap` (or your system's package of that name)"
#: The system's programs and libraries; what is a link on the host (/bin) is one inside.
SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64")
SYSTEM += ("/usr/libexec", "/usr/include", "/usr/share", "/usr/local/bin", "/usr/local/lib", "/usr/local/lib64")
SYSTEM += ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
NAMESPACES = ("--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
HERE = Path(__file__).parent
PYTHON = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}").resolve()
NOBODY = 65534
#: Above every user that a system makes: the users of root's slots.
FIRST_UID = 0x7000_0000
SPARE_PROCESSES = 4  # of a slot beside its job's
AUTOPSY_S = 0.5  # how long a worker whose streams have ended may take to be gone


class Bubblewrap:
    """Starts slots as bubblewrap sandboxes. Linux only."""

    name = "bubblewrap"

    def __init__(self, ceiling: Limits) -> None:
        self.ceiling = ceiling
        self._started = 0

    async def open(self) -> None:
        """Find the program. Raises `SandboxUnavailable` with what to do about it."""
        if not shutil.which("bwrap"):
            raise SandboxUnavailable(INSTALL)

    async def start(self) -> Slot:
        """Start a sandbox; returns once its name spaces exist. Raises `SandboxUnavailable`."""
        starting = asyncio.ensure_future(self._start())
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:  # bubblewrap that is killed half-way leaves a process that waits for it for ever
            with suppress(SandboxUnavailable):
                await (await starting).kill()
            raise

    async def _start(self) -> Slot:
        self._started += 1
        uid = self._uid()
        with ExitStack() as stack:
            files = {path: _memory_file(content, stack) for path, content in _contents(uid or NOBODY).items()}
            told, tell = os.pipe()
            stack.callback(os.close, tell)
            command = ["bwrap", *_rights(uid), *_places(files), "--info-fd", str(tell), "--", *self._inside(uid)]
            try:
                fds = (tell, *files.values())
                process = await asyncio.create_subprocess_exec(
                    *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, pass_fds=fds
                )
            except OSError as error:
                os.close(told)
                raise SandboxUnavailable(f"bubblewrap cannot be started: {error}") from error
        return await _slot(process, told)

    async def close(self) -> None:
        """Nothing is held beside the slots."""

    def _uid(self) -> int:
        """The user of the next slot; 0: whoever we are, for only root can be somebody else."""
        if os.geteuid() != 0:
            return 0
        return FIRST_UID + (os.getpid() << 8) + self._started % 256

    def _inside(self, uid: int) -> list[str]:
        """The command that becomes the worker."""
        python, limits = (str(PYTHON), "-I", "-S"), self.ceiling
        slot = (str(limits.files_bytes + MEGABYTE), str(SLOT_FILES), str(uid), slot_filter().hex())
        job = ("/tmp", str(limits.processes + SPARE_PROCESSES), job_filter().hex())
        return [*python, "/sandbox/init.py", *slot, *python, "/sandbox/worker.py", *job]


def _rights(uid: int) -> list[str]:
    """Name spaces and capabilities: the few that the first program inside needs, and drops."""
    options = ["--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    options += ["--hostname", "sandbox", "--die-with-parent", "--new-session", "--as-pid-1"]
    options += ["--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN"]
    if uid:
        return [*options, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"]
    return [*options, "--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]


def _places(files: dict[str, int]) -> list[str]:
    """The root file system: the system's programs, the interpreter, a few files of ours, and the empty rest."""
    options = ["--clearenv", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--setenv", "HOME", "/tmp"]
    options += ["--setenv", "LANG", "C.UTF-8"]
    # Folders that bubblewrap makes on the way to a place are its own user's alone, those it is told to make are not.
    for folder in sorted({parent for path in (*SYSTEM, *DEVICES, *files, sys.base_prefix) for parent in _above(path)}):
        options += ["--dir", folder]
    for path in SYSTEM:
        options += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind-try", path, path]
    if not Path(sys.base_prefix).is_relative_to("/usr"):
        options += ["--ro-bind", sys.base_prefix, sys.base_prefix]
    for path in hidden(HERE.parent.parent):
        options += ["--tmpfs", path, "--remount-ro", path]
    for path in DEVICES:
        options += ["--dev-bind", path, path]
    for path, fd in files.items():
        options += ["--perms", "0444", "--ro-bind-data", str(fd), path]
    return [*options, "--dir", "/tmp", "--proc", "/proc", "--remount-ro", "/"]


def _above(path: str) -> list[str]:
    return [str(parent) for parent in Path(path).parents if parent != Path("/")]


def hidden(package: Path) -> list[str]:
    """The package's folder, if a slot would see it: its environments know the answers to their own tasks."""
    return [str(package)] if any(package.is_relative_to(root) for root in (*SYSTEM, sys.base_prefix)) else []


def _contents(uid: int) -> dict[str, bytes]:
    return {
        "/etc/passwd": f"nobody:x:{uid}:{uid}:nobody:/tmp:/bin/false\n".encode(),
        "/etc/group": f"nogroup:x:{uid}:\n".encode(),
        "/sandbox/init.py": (HERE / "bubblewrap_init.py").read_bytes(),
        "/sandbox/worker.py": SOURCE.read_bytes(),
    }


def _memory_file(content: bytes, stack: ExitStack) -> int:
    fd = os.memfd_create("gymwire")
    stack.callback(os.close, fd)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


class _Sandbox:
    """A sandbox that runs. `first`: a descriptor of the process that is PID 1 inside."""

    def __init__(self, process: Process, first: int) -> None:
        self._process, self._first = process, first

    async def kill(self) -> None:
        if self._process.returncode is None:
            # The first process takes its whole process name space with it; bubblewrap ends when that is done.
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
            await self._process.wait()
        if self._first >= 0:
            os.close(self._first)
            self._first = -1

    async def autopsy(self) -> str:
        try:
            await asyncio.wait_for(self._process.wait(), AUTOPSY_S)
        except TimeoutError:
            return ""
        return f"exit status {self._process.returncode}: {await _complaint(self._process)}".rstrip(": ")


async def _complaint(process: Process) -> str:
    assert process.stderr
    return (await process.stderr.read()).decode(errors="replace").strip()[-500:]


async def _slot(process: Process, told: int) -> Slot:
    """The slot of a sandbox that is being started. Raises `SandboxUnavailable` with bubblewrap's own words."""
    assert process.stdin and process.stdout
    first = await _first_process(told)
    if first is None:
        complaint = await _complaint(process)
        await process.wait()
        raise SandboxUnavailable(f"bubblewrap cannot make a sandbox here: {complaint}")
    sandbox = _Sandbox(process, first)
    return Slot(f"bubblewrap-{process.pid}", process.stdout, process.stdin, sandbox.kill, sandbox.autopsy)


async def _first_process(told: int) -> int | None:
    """A descriptor of the process that is PID 1 inside, or None where bubblewrap ended without one."""
    reader = asyncio.StreamReader()
    pipe = open(told, "rb", buffering=0)  # noqa: SIM115  the transport closes it
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        return os.pidfd_open(json.loads(await reader.readuntil(b"}"))["child-pid"])
    except (asyncio.IncompleteReadError, ProcessLookupError):
        return None
    finally:
        transport.close()
