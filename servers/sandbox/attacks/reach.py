"""Attacks that reach out: for the network, the host, rights, the kernel, the root file system."""

from __future__ import annotations

from .attack import PRELUDE, Attack, Limit

_NETWORK = """
import socket

def unix(address):
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)

def route(family, address):
    with socket.socket(family, socket.SOCK_DGRAM) as line:
        line.connect((address, 9))
        return line.getsockname()

for address, port in host["doors"]:
    attempt(f"the host at {address}", lambda: socket.create_connection((address, port), 0.5))
attempt("a route", lambda: route(socket.AF_INET, "192.0.2.1"))
attempt("a route (IPv6)", lambda: route(socket.AF_INET6, "2001:db8::1"))
attempt("the host's abstract socket", lambda: unix("\\0" + host["abstract"]))
attempt("the host's socket file", lambda: unix(host["folder"] + "/socket"))
attempt("the engine's socket", lambda: unix("/var/run/docker.sock"))
attempt("a raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("a packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
end()
"""

_ROOT = """
import shutil, stat

def writable():
    for folder, folders, _ in os.walk("/"):
        kept = [name for name in folders if os.path.join(folder, name) not in ("/proc", "/sys", "/tmp")]
        folders[:] = kept[: 200 >> folder.count("/")]  # a sample of those that are deep
        if os.access(folder, os.W_OK):
            return folder
    raise PermissionError(errno.EROFS, "nowhere")

attempt("any folder beside /tmp", writable)
outside = "/x /etc/x /etc/passwd /usr/x /dev/x /dev/shm/x /dev/mqueue/x /var/tmp/x /run/x /sandbox/x"
for path in outside.split():
    attempt(path, lambda: write(path))
attempt("its interpreter", lambda: write(os.path.realpath(sys.executable)))
attempt("its library", lambda: write(os.__file__))
attempt("core_pattern", lambda: write("/proc/sys/kernel/core_pattern"))
attempt("sysrq", lambda: write("/proc/sysrq-trigger"))
attempt("host name", lambda: write("/proc/sys/kernel/hostname"))
attempt("cgroups", lambda: os.mkdir("/sys/fs/cgroup/x"))
attempt("chroot", lambda: os.chroot("/tmp"))
attempt("a device", lambda: os.mknod("/tmp/device", stat.S_IFBLK | 0o666, os.makedev(8, 0)))
end()
"""

_RIGHTS = """
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
must("not root", os.getuid() != 0 and os.geteuid() != 0 and os.getgid() != 0)
must("no groups", set(os.getgroups()) <= {os.getgid()})
for name in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
    must(f"{name} empty", int(status[name], 16) == 0)
must("no new privileges", status["NoNewPrivs"].strip() == "1")
attempt("setuid", lambda: os.setuid(0))
attempt("setgid", lambda: os.setgid(0))
attempt("setgroups", lambda: os.setgroups([0]))
attempt("a higher priority", lambda: os.nice(-5))
attempt("a real-time priority", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
attempt("the clock", lambda: time.clock_settime(time.CLOCK_REALTIME, 0))
attempt("the terminal", lambda: os.open("/dev/tty", os.O_RDWR))
end()
"""

_HOST = """
import glob, stat

def secrets(paths):
    for path in paths:
        try:
            with open(path, "rb") as file:
                found = file.read(1 << 16)
        except OSError:
            continue
        if host["secret"].encode() in found:
            return path
    raise PermissionError(errno.EACCES, "nowhere")

def at_home():
    # Folders on the way to the interpreter are there, and nothing else is.
    home = host["home"]
    for name in os.listdir(home):
        if not sys.base_prefix.startswith(os.path.join(home, name)):
            return name
    raise FileNotFoundError(errno.ENOENT, "nothing")

attempt("a file in the host's folder of temporary files", lambda: os.listdir(host["folder"]))
attempt("the home folder", at_home)
attempt("this package", lambda: os.listdir(host["package"]))
attempt("the environment", lambda: {name: 0 for name in os.environ}[host["variable"]])
attempt("the environment of others", lambda: secrets(glob.glob("/proc/[0-9]*/environ")))
attempt("the command lines of others", lambda: secrets(glob.glob("/proc/[0-9]*/cmdline")))
must("no other process", {int(name) for name in os.listdir("/proc") if name.isdigit()} <= {1, os.getpid()})
blocks = [name for name in os.listdir("/dev") if stat.S_ISBLK(os.lstat(f"/dev/{name}").st_mode)]
must("no block device", not blocks)
attempt("the kernel's log", lambda: os.open("/dev/kmsg", os.O_RDONLY))
attempt("the machine's memory", lambda: os.open("/dev/mem", os.O_RDONLY))
attempt("kernel memory", lambda: os.read(os.open("/proc/kcore", os.O_RDONLY), 8)[7])
end()
"""

#: Numbers on x86-64 and 64-bit Arm of calls that open the kernel or leave things in it, with harmless arguments.
_KERNEL = """
import platform
arm = platform.machine() == "aarch64"
empty = ctypes.create_string_buffer(256)
CALLS = {
    "io_uring_setup": (425, 425, 8, empty), "ptrace": (101, 117, 0, 0, 0, 0), "bpf": (321, 280, 0, empty, 48),
    "perf_event_open": (298, 241, empty, 0, -1, -1, 0), "userfaultfd": (323, 282, 1),
    "add_key": (248, 217, b"user", b"x", b"x", 1, -3), "keyctl": (250, 219, 0, -3, 1),
    "unshare (user)": (272, 97, 0x10000000), "unshare (mount)": (272, 97, 0x20000), "setns": (308, 268, 0, 0),
    "clone (user)": (56, 220, 0x10000011, 0, 0, 0, 0), "mount": (165, 40, b"none", b"/tmp", b"tmpfs", 0, 0),
    "umount": (166, 39, b"/tmp", 2), "fsopen": (430, 430, b"tmpfs", 0), "open_tree": (428, 428, -100, b"/", 1),
    "pivot_root": (155, 41, b"/tmp", b"/tmp"), "name_to_handle_at": (303, 264, -100, b"/", empty, empty, 0),
    "open_by_handle_at": (304, 265, -100, empty, 0), "init_module": (175, 105, empty, 0, b""),
    "kexec_load": (246, 104, 0, 0, 0, 0), "syslog": (103, 116, 3, empty, 100), "reboot": (169, 142, 0, 0, 0, 0),
    "shmget": (29, 194, 0, 4096, 0o1600), "msgget": (68, 186, 0, 0o1600), "semget": (64, 190, 0, 1, 0o1600),
    "mq_open": (240, 180, b"x", 0o102, 0o600, 0), "swapon": (167, 224, b"/tmp/x", 0), "acct": (163, 89, b"/tmp/x"),
}
for name, (intel, other, *arguments) in CALLS.items():
    attempt(name, lambda: call(other if arm else intel, *arguments))
end()
"""

ATTACKS = (
    Attack("connects to the host and beyond", Limit.NETWORK, PRELUDE + _NETWORK),
    Attack("writes outside /tmp", Limit.ROOT, PRELUDE + _ROOT),
    Attack("asks for rights", Limit.RIGHTS, PRELUDE + _RIGHTS),
    Attack("reads the host's files and processes", Limit.HOST, PRELUDE + _HOST),
    Attack("calls io_uring, ptrace, bpf, new name spaces, keys", Limit.KERNEL, PRELUDE + _KERNEL),
)
