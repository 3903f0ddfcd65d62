"""Three hundred small programs by table, with what they may use: what becomes of each must not depend on the backend.

They print nothing that another Python would print otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

from gymwire.servers.sandbox.jobs import Job

from tests.servers.sandbox.programs import program

EXITS = (0, 1, 2, 3, 7, 42, 100, 126, 127, 128, 130, 200, 255, 256, 257, -1, True, None, "'a text'", "(1, 2)", "1.5")
EXCEPTIONS = (
    "ArithmeticError AssertionError AttributeError BaseException BufferError EOFError Exception FloatingPointError"
)
EXCEPTIONS += (
    " GeneratorExit ImportError IndexError KeyError LookupError MemoryError NameError NotImplementedError OSError"
)
EXCEPTIONS += (
    " OverflowError PermissionError RecursionError RuntimeError StopIteration SystemError TimeoutError TypeError"
)
EXCEPTIONS += " UnboundLocalError ValueError ZeroDivisionError KeyboardInterrupt SystemExit"
SIGNALS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 25, 26, 27, 29, 30, 31, 34, 64)
MODULES = (
    "abc argparse array ast asyncio base64 binascii bisect bz2 calendar cmath codecs collections concurrent.futures"
)
MODULES += " configparser contextlib copy csv ctypes dataclasses datetime decimal difflib dis enum fnmatch fractions"
MODULES += " functools gc getpass glob graphlib gzip hashlib heapq hmac html http.client importlib inspect io ipaddress"
MODULES += " itertools json keyword linecache locale logging lzma math mmap multiprocessing numbers operator os pathlib"
MODULES += (
    " pickle platform pprint queue random re resource select selectors shlex shutil signal socket sqlite3 ssl stat"
)
MODULES += (
    " statistics string struct subprocess tempfile textwrap threading time timeit tokenize traceback types typing"
)
MODULES += " unicodedata unittest urllib.parse uuid warnings weakref xml.etree.ElementTree zipfile zlib"
TEXTS = (
    "",
    "plain",
    "ü",
    "ﬀ",
    "漢字",
    "🦊",
    "e\u0301",
    "\u200b",
    "\u2028",
    "\x00",
    "\x1b[31m",
    "\x85",
    "\ufeff",
    "\r\n",
)
SYNTAX = (
    "(",
    ")",
    "def",
    "if 1",
    "x = ",
    "1 +",
    "'open",
    "\tx\n  y",
    "return",
    "yield",
    "await x",
    "break",
    "\x00",
    "nonlocal x",
)
SUMS = "import sys\nprint(sum(int(word) for word in sys.stdin.read().split()))"
LINES = "import sys\nfor line in sys.stdin: print(len(line), end=' ')"
BYTES = "import sys, zlib\nprint(zlib.crc32(sys.stdin.buffer.read()))"
INPUTS = (b"", b"1", b"1\n", b"1 2 3\n", b"1\r\n2\r\n", b"\n\n\n", b" 7 ", b"1\n" * 1000, b"12 " * 30_000, b"-5\n+6\n")
ODD_INPUTS = (b"\xff\xfe", b"\x00" * 10, "ü漢🦊\n".encode(), b"x" * 500_000, bytes(range(256)))
COMMANDS: dict[str, tuple[str, ...]] = {
    "true": ("true",),
    "false": ("false",),
    "exit": ("sh", "-c", "exit 9"),
    "missing": ("no-such-program",),
    "a folder": ("/tmp",),
    "a signal": ("sh", "-c", "kill -11 $$"),
    "a pipe": ("sh", "-c", "seq 1000 | tail -n 1"),
    "words": ("printf", "%s|", "a b", "", "ü", "*"),
    "stdin": ("cat",),
    "a flood": ("sh", "-c", "while :; do echo xxxxxxxxxxxxxxxx; done"),
    "asleep": ("sleep", "60"),
    "an interpreter of its own": ("python3", "-c", "print(6 * 7)"),
    "an expression": ("python", "-c", "print(6 * 7)"),
    "stderr": ("sh", "-c", "echo no >&2; exit 4"),
}
HANGS = {
    "spins": "while True: pass",
    "sleeps": "import time\ntime.sleep(60)",
    "waits for a lock": "import threading\nlock = threading.Lock()\nlock.acquire(); lock.acquire()",
    "waits for a child": "import os, time\nif os.fork() == 0: time.sleep(60)\nos.wait()",
    "a thread sleeps": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()",
    "regular expression": "import re\nre.match('(a+)+$', 'a' * 40 + 'b')",
    "power": "print(9 ** 9 ** 9 % 10)",
    "ignores SIGTERM": "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nwhile True: time.sleep(1)",
    "at exit": "import atexit, time\natexit.register(time.sleep, 60)\nprint('done', flush=True)",
}
MEMORY = {
    "a list": "kept = []\nwhile True: kept.append(bytes(100_000))",
    "a string": "kept = 'x'\nwhile True: kept += kept",
    "at once": "kept = bytearray(1 << 31)",
    "a number": "kept = 1 << (1 << 33)",
    "a dictionary": "kept = {}\nwhile True: kept[len(kept)] = str(len(kept)) * 50",
    "children": "import os, time\nfor _ in range(4): os.fork()\nkept = bytearray(b'x') * (40 << 20)\ntime.sleep(9)",
    "a thread": "import threading\ndef grow():\n    kept = []\n    while True: kept.append(bytes(100_000))\n"
    "threading.Thread(target=grow).start()",
    "caught, then gone on": "try: kept = bytearray(1 << 31)\nexcept MemoryError: print('caught')",
}

THREADS = """
import threading
for n in range({count}):
    thread = threading.Thread(target=print, args=(n,))
    thread.start()
    thread.join()
"""
CHILDREN = """
import os, time
for n in range({count}):
    if os.fork() == 0: os._exit(n)
print(sorted(os.wait()[1] for _ in range({count})))
"""


def corpus() -> dict[str, Job]:
    """Every program by its name."""
    everything = [*_ends(), *_values(), *_inputs(), *_outputs(), *_processes(), *_hangs(), *_work()]
    found = dict(everything)
    assert len(found) == len(everything), "two programs of one name"
    return found


def _ends() -> Iterator[tuple[str, Job]]:
    for code in EXITS:
        yield f"sys.exit({code})", program(f"import sys\nprint('out')\nsys.exit({code})")
    for code in (0, 1, 5, 255):
        yield f"os._exit({code})", program(f"import os\nprint('lost')\nos._exit({code})")
    for name in EXCEPTIONS.split():
        yield f"raises {name}", program(f"print('out')\nraise {name}")
        if len(name) % 3 == 0:
            yield f"catches {name}", program(f"try:\n    raise {name}\nexcept BaseException as e:\n    print(type(e))")
    for number in SIGNALS:
        yield f"signal {number}", program(f"import os\nos.kill(os.getpid(), {number})\nprint('alive')")
    for text in SYNTAX:
        yield f"syntax {text!r}", program(text)


def _values() -> Iterator[tuple[str, Job]]:
    for name in MODULES.split():
        yield f"imports {name}", program(f"import {name}\nprint({name}.__name__)")
    for text in TEXTS:
        yield f"prints {text!r}", program(f"print({text!r}, len({text!r}))")
    for depth in (10, 500, 900, 5_000, 50_000):
        source = (
            f"def f(n): return n and 1 + f(n - 1)\ntry: print(f({depth}))\nexcept RecursionError: print('too deep')"
        )
        yield f"recursion {depth}", program(source)


def _inputs() -> Iterator[tuple[str, Job]]:
    for at, given in enumerate(INPUTS):
        yield f"sums input {at}", program(SUMS, stdin=given)
        yield f"lines of input {at}", program(LINES, stdin=given)
    for at, given in enumerate(ODD_INPUTS):
        yield f"odd input {at}", program(BYTES, stdin=given)
        yield f"odd input {at} as text", program(LINES, stdin=given)
    yield "input() at the end", program("input()")
    yield "input() twice", program("print(input(), input())", stdin=b"a\nb")


def _outputs() -> Iterator[tuple[str, Job]]:
    for size in (0, 1, 1023, 4096, 20_000, 20_001, 65_536, 300_000):
        yield f"prints {size}", program(f"print('x' * {size}, end='')", output_bytes=20_000)
        yield f"complains {size}", program(f"import sys\nsys.stderr.write('x' * {size})", output_bytes=20_000)
    for size in (1, 1000, 100_000):
        yield f"writes {size}", program(f"open('x', 'wb').write(b'x' * {size})\nprint('done')", files_bytes=50_000)
    yield "closed stdout", program("import sys\nsys.stdout.close()\nprint('x')")
    yield "closed descriptor", program("import os\nos.close(1)\nprint('x')")
    yield "bytes", program("import sys\nsys.stdout.buffer.write(bytes(range(256)))")
    yield "half a pair", program("print('\\ud800')")


def _processes() -> Iterator[tuple[str, Job]]:
    for name, argv in COMMANDS.items():
        yield f"command {name}", Job(argv, stdin=b"given", limits=program("", wall_s=1.0, output_bytes=20_000).limits)
    for count in (1, 2, 8):
        yield f"{count} threads", program(THREADS.format(count=count))
        yield f"{count} children", program(CHILDREN.format(count=count))
    yield "too many children", program(CHILDREN.format(count=40).replace("os._exit(n)", "time.sleep(9)"), processes=8)
    yield (
        "a child's exit",
        program("import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'exit(6)']).returncode)"),
    )
    yield "leaves a child", program("import os, time\nif os.fork() == 0: time.sleep(60)\nprint('done')")


def _hangs() -> Iterator[tuple[str, Job]]:
    for name, source in HANGS.items():
        yield f"hangs: {name}", program(source, wall_s=0.5)
    yield "spends its CPU time", program("while True: pass", cpu_s=0.3)
    for name, source in MEMORY.items():
        yield f"memory: {name}", program(source, memory_mb=64, wall_s=8.0)
    for size in (1, 10, 30):
        yield (
            f"memory: {size} MB are fine",
            program(f"kept = bytearray(b'x') * ({size} << 20)\nprint(len(kept))", memory_mb=64),
        )


def _work() -> Iterator[tuple[str, Job]]:
    for n in range(24):
        yield f"fibonacci {n}", program(f"a, b = 0, 1\nfor _ in range({n * 50}): a, b = b, a + b\nprint(a)")
    for n in range(12):
        yield f"sorts {n}", program(f"print(sorted((7 ** k) % 101 for k in range({n * 40}))[:20])")
    for n in (1, 10, 100, 2_000):
        yield f"primes below {n}", program(f"print([n for n in range(2, {n}) if all(n % d for d in range(2, n))][-5:])")
