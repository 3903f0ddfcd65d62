"""Attacks that look: into the worker, at jobs that ran before in the slot, at jobs that run beside it in others."""

from __future__ import annotations

from .attack import PRELUDE, Attack, Limit

_WORKER = """
def readable(path):
    with open(path, "rb") as file:
        return file.read(16)

for name in ("mem", "maps", "environ", "auxv", "stack", "syscall", "smaps"):
    attempt(name, lambda: readable(f"/proc/1/{name}"))
attempt("its folder", lambda: os.readlink("/proc/1/cwd"))
attempt("its root", lambda: os.listdir("/proc/1/root"))
attempt("its descriptors", lambda: os.listdir("/proc/1/fd"))
for fd in range(3, 32):
    attempt(f"descriptor {fd}", lambda: os.fstat(fd))
attempt("process_vm_readv", lambda: call(270 if os.uname().machine == "aarch64" else 310, 1, 0, 0, 0, 0, 0))
attempt("its descriptors by number", lambda: call(438, os.pidfd_open(1), 0, 0))
held[:] = [f"{len(held)} ways refused"]
end()
"""

#: A word that is in this program's text, its arguments, its files, its memory; the spy knows its halves alone.
_SECRET = """
import array, os, socket
word = "RED" + "HERRING-4711"
kept = [word * 1000, bytearray((word * 1000).encode())]
for folder in ("/tmp", os.getcwd(), "/dev/shm", "/dev/mqueue", "/var/tmp", "/run", os.path.expanduser("~")):
    try:
        with open(os.path.join(folder, word), "w") as file:
            file.write(word * 100)
    except OSError:
        pass
os.environ["WORD"] = word
print(word * 100)
# REDHERRING-4711
"""

_FILES = """
halves = ("RED", "HERRING-4711")

def search():
    for folder, folders, names in os.walk("/"):
        if folder == "/":
            folders[:] = [name for name in folders if name in ("tmp", "dev", "var", "run", "sandbox", "home")]
        for name in names:
            path = os.path.join(folder, name)
            try:
                if "".join(halves) in name:
                    return path
                if os.path.isfile(path) and "".join(halves).encode() in open(path, "rb").read(1 << 20):
                    return path
            except OSError:
                pass
    raise FileNotFoundError(errno.ENOENT, "nowhere")

attempt("files", search)
attempt("the environment", lambda: {value: 0 for value in os.environ.values()}["".join(halves)])
end()
"""

_MEMORY = """
import re

def search():
    wanted = re.compile(b"H[E]RRING-4711")
    regions, found = 0, 0
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps.read().splitlines():
            span, access, *_ = line.split()
            if not access.startswith("r") or "[v" in line:
                continue
            start, end = (int(edge, 16) for edge in span.split("-"))
            try:
                memory.seek(start)
                found += len(wanted.findall(memory.read(end - start)))
            except (OSError, ValueError, OverflowError):
                continue
            regions += 1
    if found or regions < 10:
        return f"{found} times in {regions} regions"
    raise LookupError(f"nowhere in {regions} regions")

attempt("its own memory, which the worker's was", search)
end()
"""

_BESIDE = """
import os, socket, time
lines = [socket.socket(socket.AF_UNIX), socket.socket()]
lines[0].bind("\\0gymwire-beside")
lines[1].bind(("127.0.0.1", 45711))
for line in lines:
    line.listen()
for folder in ("/tmp", "/dev/shm", "/var/tmp", "."):
    try:
        with open(os.path.join(folder, "beside"), "w") as file:
            file.write("beside")
    except OSError:
        pass
time.sleep(1.5)
"""

_LOOK_BESIDE = """
import socket

def unix():
    with socket.socket(socket.AF_UNIX) as line:
        line.connect("\\0gymwire-beside")

time.sleep(0.5)
attempt("its socket", unix)
attempt("its port", lambda: socket.create_connection(("127.0.0.1", 45711), 0.5))
for folder in ("/tmp", "/dev/shm", "/var/tmp", "."):
    attempt(f"its file in {folder}", lambda: os.stat(os.path.join(folder, "beside")))
must("its process", {int(name) for name in os.listdir("/proc") if name.isdigit()} <= {1, os.getpid()})
end()
"""

ATTACKS = (
    Attack("looks into the worker", Limit.WORKER, PRELUDE + _WORKER),
    Attack("looks for files of the job before", Limit.REMAINS, PRELUDE + _FILES, plant=_SECRET),
    Attack("looks for memory of the job before", Limit.REMAINS, PRELUDE + _MEMORY, plant=_SECRET),
    Attack("looks for a job beside it", Limit.OTHERS, PRELUDE + _LOOK_BESIDE, beside=_BESIDE),
)
