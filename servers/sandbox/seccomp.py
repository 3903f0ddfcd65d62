"""The system calls that no job may make, as the kernel's filter programs (classic BPF).

A list of refusals, not of permissions: what opens the kernel wide (io_uring, ptrace, bpf, new name spaces, mounts,
keys) and what would outlive a job (System V and POSIX queues) answers "operation not permitted"; everything else is as
usual. Sources: seccomp(2), linux/audit.h, the kernel's syscall tables.
"""

from __future__ import annotations

import errno
import platform
from struct import pack

#: Refused calls and their numbers on x86-64 and 64-bit Arm.
REFUSED: dict[str, tuple[int, int]] = {
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "syslog": (103, 116),
}
#: Refused to jobs alone, for the worker makes their stdin of it: memory that no limit of one job counts.
UNCOUNTED: dict[str, tuple[int, int]] = {"memfd_create": (319, 279)}
#: Machine -> its column above, its AUDIT_ARCH number, and its numbers of clone, clone3 and prlimit64.
MACHINES = {"x86_64": (0, 0xC000003E, 56, 435, 302), "aarch64": (1, 0xC00000B7, 220, 435, 261)}
NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW* flag
X32 = 0x40000000  # the second set of numbers that x86-64 kernels may answer to

Line = tuple[int, int, int, int]  # operation, jump if true, jump if false, operand
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000, 0x80000000


def slot_filter(machine: str = platform.machine()) -> bytes:
    """For a worker and its jobs; empty where we do not know the machine's numbers.

    clone3 answers "no such call", for its flags lie in memory that a filter cannot read: C libraries then use clone.
    Limits (prlimit64) are a process's own alone: the worker is of the same user.
    """
    if machine not in MACHINES:
        return b""
    column, _, clone, clone3, prlimit = MACHINES[machine]
    lines = _refusals(column, REFUSED)
    lines += [(_EQUAL, 0, 1, clone3), (_RETURN, 0, 0, _FAIL | errno.ENOSYS)]
    lines += [(_EQUAL, 0, 4, prlimit), (_LOAD, 0, 0, _FIRST_ARGUMENT), (_EQUAL, 1, 0, 0)]
    lines += [(_RETURN, 0, 0, _FAIL | errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    lines += [(_EQUAL, 0, 3, clone), (_LOAD, 0, 0, _FIRST_ARGUMENT), (_ANY_BIT, 0, 1, NEW_NAMESPACES)]
    lines += [(_RETURN, 0, 0, _FAIL | errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    return _assembled(machine, lines)


def job_filter(machine: str = platform.machine()) -> bytes:
    """For jobs beside that: short, since every job installs it."""
    if machine not in MACHINES:
        return b""
    return _assembled(machine, [*_refusals(MACHINES[machine][0], UNCOUNTED), (_RETURN, 0, 0, _ALLOW)])


def _refusals(column: int, calls: dict[str, tuple[int, int]]) -> list[Line]:
    pairs = [((_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, _FAIL | errno.EPERM)) for numbers in calls.values()]
    return [line for pair in pairs for line in pair]


def _assembled(machine: str, lines: list[Line]) -> bytes:
    """With what every filter begins with: no numbers but this machine's own."""
    head = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, MACHINES[machine][1]), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    head += [(_AT_LEAST, 0, 1, X32), (_RETURN, 0, 0, _FAIL | errno.ENOSYS)]
    return b"".join(pack("=HBBI", *line) for line in (*head, *lines))
