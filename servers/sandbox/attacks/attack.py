"""What an attack is: a program, what it tries, and what must become of it.

A program that is not stopped says itself what it could do, in the last line of its output: HELD with what refused it,
or BROKEN with what did not. It is told, as JSON on its stdin, of things of the host's that it must not reach.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ..jobs import Limits, Verdict


class Limit(StrEnum):
    """What a backend may claim. Each has attacks."""

    NETWORK = "no network"
    ROOT = "read-only root"
    RIGHTS = "no rights"
    HOST = "host hidden"
    KERNEL = "kernel doors shut"
    PROCESSES = "processes"
    MEMORY = "memory"
    OUTPUT = "output"
    WALL = "wall time"
    CPU = "CPU time"
    DISK = "disk"
    REMAINS = "no remains"
    WORKER = "worker safe"
    OTHERS = "other jobs hidden"


#: Small, so that a whole check takes seconds; every attack asks for more than one of them.
SMALL = Limits(wall_s=4, cpu_s=4, memory_mb=96, processes=16, output_bytes=16_384, files_bytes=4_194_304)


@dataclass(frozen=True, slots=True)
class Attack:
    """`plant` runs before `program` in the same slot, `beside` at the same time in another."""

    name: str
    limit: Limit
    program: str
    verdicts: frozenset[Verdict] = frozenset({Verdict.COMPLETED})
    limits: Limits = field(default=SMALL)
    exit_code: int | None = None  # which the program must have had; None: any
    plant: str = ""
    beside: str = ""


#: Goes before programs that try several things: `attempt` what must fail, `must` be what has to be so.
PRELUDE = """
import ctypes, errno, json, os, sys, time
host = json.load(sys.stdin)
libc = ctypes.CDLL(None, use_errno=True)
held, broken = [], []

def attempt(what, action):
    try:
        got = action()
    except Exception as error:
        name = errno.errorcode.get(error.errno) if isinstance(error, OSError) else None
        held.append(f"{what}: {name or type(error).__name__}")
    else:
        broken.append(f"{what}: {got!r}"[:200])

def must(what, holds):
    (held if holds else broken).append(what)

def call(number, *arguments):
    if libc.syscall(number, *arguments) == -1:
        raise OSError(ctypes.get_errno(), "refused")

def write(path):
    with open(path, "ab") as file:
        file.write(b"x")

def end():
    print("BROKEN " + "; ".join(broken) if broken else "HELD " + "; ".join(held))
    sys.exit(0)
"""
