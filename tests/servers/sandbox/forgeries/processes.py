"""Forgeries by exits, signals, streams and files: whatever a program can do to its process and its folder."""

from __future__ import annotations

from tests.servers.sandbox.forgeries.shapes import CALLED, Forgery

ALL = ("stdin", *CALLED)

_STDOUT = """
import sys
class Out:
    encoding = "utf-8"
    def write(self, text): return len(text)
    def flush(self): pass
    def fileno(self): return 1
    def __getattr__(self, name): return lambda *a, **k: 6
sys.stdout = sys.__stdout__ = sys.stderr = Out()
print(6)
"""

_FILES = """
import os
names = ["reward.txt", "result.json", "verdict", ".stdout", "output", "expected", "main.py", "solution.py"]
names += ["inside/calls.py", "inside/stdio.py", "inside/plain.py", "inside/asserts.py", "inside/__init__.py"]
for folder in (".", "..", "/tmp", "/"):
    for name in names:
        try:
            os.makedirs(os.path.dirname(os.path.join(folder, name)) or ".", exist_ok=True)
            path = os.path.join(folder, name)
            if os.path.exists(path):
                os.unlink(path)
            with open(path, "w") as file:
                file.write("6\\ndef run(): print(6)\\ndef double(n): return 6\\n")
        except OSError:
            pass
os._exit(0)
"""

_OWN_FOLDER = """
import os, sys
for folder, _, names in os.walk("/tmp"):
    for name in names:
        try:
            text = open(os.path.join(folder, name)).read()
        except (OSError, UnicodeError):
            continue
        if "expected" in text and "inside" not in folder:
            print(text)
for path in ("/proc/1/cmdline", "/proc/1/environ", "/proc/1/mem", f"/proc/{os.getppid()}/mem", "/proc/self/environ"):
    try:
        print(open(path).read(1000))
    except (OSError, UnicodeError):
        pass
"""

#: The job's first process is of the program's own user: it may do to it what it likes, and still knows no answer.
_PARENT = """
import os, re
def every(pid):
    try:
        regions = open(f"/proc/{pid}/maps").read().splitlines()
        memory = open(f"/proc/{pid}/mem", "rb", 0)
    except OSError:
        return
    for line in regions:
        span, access, *_ = line.split()
        if "r" not in access or "[v" in line: continue
        start, end = (int(edge, 16) for edge in span.split("-"))
        try:
            memory.seek(start)
            yield memory.read(end - start)
        except (OSError, ValueError, OverflowError):
            pass
found = []
for pid in {1, os.getppid(), os.getpid()}:
    for content in every(pid):
        found += re.findall(rb'"expected": *"?(\\d+)', content)
print(*(item.decode() for item in found[:1]))
def double(n):
    return int(found[0]) if found else None
"""

#: Every forgery is followed by an honest program in both places: that one is there to be found.
_JOB_BEFORE = """
import os, re, sys
wanted = re.compile(rb"def double\\(n\\):\\n    return [^\\n]{,20}twice, of c[o]urse")
def contents():
    for folder, _, names in os.walk("/tmp"):
        for name in names:
            yield os.path.join(folder, name)
    yield from (f"/proc/1/fd/{fd}" for fd in range(64))
def memory(pid):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as file:
        for line in maps.read().splitlines():
            span, access, *_ = line.split()
            if "r" in access and "[v" not in line:
                start, end = (int(edge, 16) for edge in span.split("-"))
                try:
                    file.seek(start)
                    yield file.read(end - start)
                except (OSError, ValueError, OverflowError):
                    pass
def texts():
    for path in contents():
        try:
            yield open(path, "rb").read(1 << 20)
        except OSError:
            pass
    for pid in (os.getpid(), os.getppid(), 1):
        try:
            yield from memory(pid)
        except OSError:
            pass
for text in texts():
    if found := wanted.search(text):
        exec(found[0].decode())
        print(double(int(input())))
        break
"""

_AT_EXIT = """
import atexit, os, sys, threading
atexit.register(lambda: print(6))
atexit.register(os._exit, 0)
def double(n):
    atexit._run_exitfuncs()
    return 0
class Late:
    def __del__(self): print(6)
late = Late()
threading.Timer(0.05, lambda: os._exit(0)).start()
"""

_SIGNALS = """
import os, signal
for number in range(1, 65):
    for pid in {1, os.getppid(), 0}:
        if number not in (9, 15, 19) or pid == 1:
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
            try:
                os.kill(pid, number)
            except OSError:
                pass
os._exit(0)
"""

_TRACE = """
import sys, os
def trace(frame, event, argument):
    frame.f_trace_opcodes = False
    for name in ("status", "expected", "said", "output"):
        if name in frame.f_locals: frame.f_locals[name] = 0
    return trace
sys.settrace(trace); sys.setprofile(trace)
frame = sys._getframe()
while frame:
    frame.f_trace = trace
    frame = frame.f_back
def double(n): return 6
print(6)
"""

FORGERIES = (
    *(
        Forgery(f"exits at once: {exit}", ALL, f"import os, sys\n{exit}\n")
        for exit in (
            "os._exit(0)",
            "sys.exit(0)",
            "raise SystemExit(0)",
            "exit()",
            "os.abort()",
            "os.kill(os.getpid(), 9)",
        )
    ),
    *(
        Forgery(f"exits when called: {exit}", CALLED, f"import os, sys\ndef double(n):\n    {exit}\n")
        for exit in (
            "os._exit(0)",
            "sys.exit(0)",
            "raise SystemExit(2 * 3)",
            "raise AssertionError",
            "raise KeyboardInterrupt",
            "os.execv('/bin/true', ['true'])",
        )
    ),
    Forgery("becomes another program", ALL, "import os\nos.execv('/bin/echo', ['echo', '6'])\n"),
    Forgery("takes stdout over", ALL, _STDOUT),
    Forgery("closes every stream", ALL, "import os\nos.closerange(0, 256)\nos._exit(0)\n"),
    Forgery("writes every file that might be read", ALL, _FILES),
    Forgery("reads its own folder and the processes above", ALL, _OWN_FOLDER),
    Forgery("searches the memory of the processes above", ALL, _PARENT),
    Forgery("runs the honest program of the job before", ("stdin", "call", "check"), _JOB_BEFORE),
    Forgery("acts at exit, in threads and when it is forgotten", ALL, _AT_EXIT),
    Forgery("plays with signals", ALL, _SIGNALS),
    Forgery("traces the grader's frames", ALL, _TRACE),
    Forgery("stops its parent", ALL, "import os\nos.kill(os.getppid(), 19)\nos._exit(0)\n"),
    Forgery("kills its parent", ALL, "import os\nos.kill(os.getppid(), 9)\nos._exit(0)\n"),
    Forgery(
        "a fork that answers as well",
        ALL,
        "import os\nif os.fork() == 0:\n    print(6)\ndef double(n):\n    os.fork()\n    return 6\n",
    ),
    Forgery("prints every number", ("stdin",), "print(*range(30_000))\n"),
    Forgery("prints without end", ("stdin",), "while True: print(6)\n"),
    Forgery("echoes its input", ("stdin",), "print(input())\n"),
    Forgery("no program", ALL, "this is not Python\n"),
    Forgery("nothing", ALL, "\n"),
    Forgery("a syntax bomb", ALL, "(" * 5_000 + "\n"),
    Forgery("a constant that takes for ever to fold", ("stdin", "call"), "x = 9 ** 9 ** 9\n"),
)
