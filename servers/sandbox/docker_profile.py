"""The system calls that a container may not make, as the JSON text of a seccomp profile that the engines take.

A profile of one's own takes the place of the engine's, so it names what that refuses as well: everything in
`seccomp.py`, which bubblewrap refuses too, and what follows. Without capabilities most of it would fail anyway.
"""

from __future__ import annotations

import errno
import json
from typing import Any

from .seccomp import NEW_NAMESPACES, REFUSED

#: Administration, old calls, NUMA, and shared memory and queues that outlive the processes of a job.
ALSO_REFUSED = frozenset(
    {
        "clock_adjtime",
        "clock_adjtime64",
        "clock_settime",
        "clock_settime64",
        "adjtimex",
        "settimeofday",
        "stime",
        "create_module",
        "get_kernel_syms",
        "query_module",
        "get_mempolicy",
        "set_mempolicy",
        "mbind",
        "move_pages",
        "migrate_pages",
        "ioperm",
        "iopl",
        "lookup_dcookie",
        "nfsservctl",
        "personality",
        "sysfs",
        "_sysctl",
        "umount",
        "uselib",
        "ustat",
        "vm86",
        "vm86old",
        "vhangup",
        "chroot",
        "mknod",
        "mknodat",
        "sethostname",
        "setdomainname",
        "fanotify_init",
        "fanotify_mark",
        "pidfd_send_signal",
        "process_madvise",
        "process_mrelease",
        "landlock_create_ruleset",
        "shmget",
        "shmat",
        "shmctl",
        "shmdt",
        "semget",
        "semop",
        "semctl",
        "semtimedop",
        "semtimedop_time64",
        "msgget",
        "msgsnd",
        "msgrcv",
        "msgctl",
        "mq_open",
        "mq_unlink",
        "mq_timedsend",
        "mq_timedreceive",
        "mq_notify",
        "mq_getsetattr",
    }
)


def docker_profile() -> str:
    """Refusals; everything else is allowed."""
    rules: list[dict[str, Any]] = [
        _rule(sorted({*REFUSED, *ALSO_REFUSED})),
        # Its flags lie in memory, where no filter can read them: C libraries then use clone.
        _rule(["clone3"], errno.ENOSYS),
        *(_rule(["clone"], arguments=[_any(bit)]) for bit in _bits(NEW_NAMESPACES)),
        # The limits of other processes, which the worker, being of the same user, is.
        _rule(["prlimit64"], arguments=[{"index": 0, "value": 0, "op": "SCMP_CMP_NE"}]),
    ]
    return json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules})


def _rule(names: list[str], number: int = errno.EPERM, arguments: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": number, "args": arguments or []}


def _any(bit: int) -> dict[str, Any]:
    return {"index": 0, "value": bit, "valueTwo": bit, "op": "SCMP_CMP_MASKED_EQ"}


def _bits(mask: int) -> list[int]:
    return [1 << place for place in range(mask.bit_length()) if mask >> place & 1]
