"""The first program inside a bubblewrap slot: makes /tmp, gives up every right, and becomes the worker.

bubblewrap cannot limit the number of files in a tmpfs, nor change to a user that is not its own; this can, with the
last capabilities, which it then drops. Standard library only, run by the sandbox's interpreter:

    python -I -S init.py TMP_BYTES TMP_FILES UID FILTER COMMAND...

UID 0 means: stay who we are (an ordinary user's slot). FILTER is the system call filter in hexadecimal.
"""

import ctypes
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(__file__))
from worker import refuse_calls

NOSUID_NODEV = 2 | 4
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 1, 24, 47, 4
CAPABILITY_VERSION_3 = 0x20080522

libc = ctypes.CDLL(None, use_errno=True)


def must(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def mount_tmp(size: int, files: int, uid: int) -> None:
    options = f"size={size},nr_inodes={files},mode=0700" + (f",uid={uid},gid={uid}" if uid else "")
    must(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", NOSUID_NODEV, options.encode()), "mount /tmp")


def drop_rights(uid: int) -> None:
    """No capability is left in any set, none can be gained back, and the user is nobody's."""
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # refused without CAP_SETPCAP: then the others must do
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    must(libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")
    # A change of user forgets it: without, the slot would outlive the process that started it.
    must(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "die with the parent")


def be_killed_first() -> None:
    """When the whole machine runs out of memory, its kernel ends this slot before anything of the host's."""
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def main() -> None:
    size, files, uid = (int(word) for word in sys.argv[1:4])
    mount_tmp(size, files, uid)
    be_killed_first()
    drop_rights(uid)
    refuse_calls(bytes.fromhex(sys.argv[4]))
    os.chdir("/tmp")
    os.execv(sys.argv[5], sys.argv[5:])


main()
