"""A Python job is a fork of a warm worker, and behaves as `python main.py` does."""

from __future__ import annotations

import pytest
from gymwire.servers.sandbox.jobs import Verdict
from gymwire.servers.sandbox.pool import Pool

from tests.servers.sandbox.programs import executed, program

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module")]

PROGRAMS = {
    "arguments": "import sys\nprint(sys.argv)",
    "path": "import sys, os\nprint(sys.path[0] == os.getcwd(), __file__ == os.path.join(os.getcwd(), 'main.py'))",
    "main module": "import __main__\nprint(__name__, __main__.__dict__ is globals(), __spec__, __package__)",
    "names at start": "print(sorted(n for n in globals() if n != '__cached__'))",
    "builtins": "print(type(exit).__name__, __builtins__.__name__)",
    "input": "while True:\n    try: print(input('? ')[::-1])\n    except EOFError: break",
    "iterate stdin": "import sys\nfor line in sys.stdin: print(repr(line))",
    "binary stdin": "import sys\nprint(sys.stdin.buffer.read())",
    "stdin by name": "print(open('/dev/stdin').read())",
    "stdin by number": "print(open(0).read())",
    "encodings": "import sys\nprint('ünï', sys.stdin.encoding, sys.stdout.encoding, sys.stderr.encoding)",
    "error handlers": "import sys\nprint(sys.stdin.errors, sys.stdout.errors, sys.stderr.errors)",
    "half surrogates": "import sys\nsys.stdout.write('\\udc80')",
    "unbuffered mix": "import sys\nprint('a'); sys.stderr.write('b\\n'); print('c', flush=True)",
    "exit 0": "exit()",
    "exit 7": "import sys\nsys.exit(7)",
    "exit 256": "raise SystemExit(256)",
    "exit minus": "raise SystemExit(-1)",
    "exit text": "import sys\nprint('x')\nsys.exit('a reason')",
    "exit none": "raise SystemExit(None)",
    "os exit": "import os\nprint('lost')\nos._exit(5)",
    "traceback": "def f(n):\n    return 1 / n\nprint('before')\nf(0)",
    "chained": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('no') from e",
    "syntax error": "print('never'\n",
    "tab error": "if True:\n\tx = 1\n        y = 2\n",
    "declared encoding": "# -*- coding: latin-1 -*-\nprint(len('ü'))",
    "future import": "from __future__ import annotations\ndef f(x: nothing): pass\nprint(f.__annotations__)",
    "recursion": "def f(n):\n    return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError as e:\n    print(type(e).__name__)",
    "recursion limit": "import sys\nprint(sys.getrecursionlimit())",
    "atexit": "import atexit\natexit.register(print, 'bye')\nprint('hi')",
    "atexit after error": "import atexit\natexit.register(print, 'bye')\n1 / 0",
    "atexit order": "import atexit\nfor n in range(3): atexit.register(print, n)",
    "excepthook": "import sys\nsys.excepthook = lambda *e: print('mine', e[0].__name__)\n1 / 0",
    "destructor": "class A:\n    def __del__(self): print('gone')\na = A()\nprint('end')",
    "unclosed file": "f = open('x', 'w')\nf.write('kept')\nimport atexit\natexit.register(lambda: print(open('x').read()))\nf.close()",
    "thread": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.05), print('late'))).start()\nprint('main')",
    "daemon thread": "import threading, time\nthreading.Thread(target=lambda: time.sleep(9), daemon=True).start()\nprint('main')",
    "thread raises": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='t')\nt.start(); t.join()",
    "main thread": "import threading\nprint(threading.current_thread() is threading.main_thread(), threading.active_count())",
    "fork": "import os\npid = os.fork()\npid and os.wait()\nprint('parent' if pid else 'child', flush=True)",
    "subprocess": "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True).stdout)",
    "signal": "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *a: print('got'))\nos.kill(os.getpid(), signal.SIGUSR1)",
    "interrupt": "raise KeyboardInterrupt",
    "own interrupt": "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    input()\nexcept KeyboardInterrupt:\n    print('caught')",
    "killed": "import os\nprint('x', flush=True)\nos.kill(os.getpid(), 11)",
    "abort": "import os\nos.abort()",
    "stdout closed": "import sys\nprint('x')\nsys.stdout.close()",
    "stdout replaced": "import sys, io\nprint('first')\nsys.stdout = io.StringIO()\nprint('second')",
    "stdout missing": "import sys\nprint('x')\nsys.stdout = None\nprint('y')",
    "asyncio": "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 3\nprint(asyncio.run(f()))",
    "pickle": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)",
    "dataclass": "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 1\nprint(P())",
    "warning": "import warnings\nwarnings.warn('careful')",
    "random": "import random\nrandom.seed(3)\nprint(random.random())",
    "inspect": "import inspect\ndef f(): return 1\nprint(inspect.getsource(f))",
    "gc": "import gc\nprint(gc.isenabled(), gc.get_freeze_count() >= 0)",
    "annotations": "x: int = 1\nprint(__annotations__)",
    "umask": "import os\nopen('f', 'w').close()\nprint(oct(os.stat('f').st_mode))",
    "environment": "import os\nprint({k: v for k, v in os.environ.items() if k != 'LC_CTYPE'})",
    "working folder": "import os\nprint(os.listdir('.'))",
    "descriptors": "import os\nprint(sorted(os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))",
}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_fork_does_what_an_interpreter_of_its_own_does(pool: Pool, name: str) -> None:
    job = program(PROGRAMS[name], "one", "two words", stdin="first\nzweite ü\nlast".encode())
    forked, own = await pool.run(job), await pool.run(executed(job))
    assert (forked.verdict, forked.exit_code) == (own.verdict, own.exit_code), forked
    assert forked.stdout == own.stdout
    assert forked.stderr == own.stderr


async def test_the_job_s_files_go_before_the_modules_that_the_worker_had_loaded(pool: Pool) -> None:
    source = (
        "import heapq, json, random\nprint(heapq.x, json.x)\nimport os, sys, math\nprint(hasattr(os, 'x'), math.pi)"
    )
    files = {"heapq.py": b"x = 1", "json/__init__.py": b"x = 2", "random.py": b"", "os.py": b"x = 3"}
    assert (await pool.run(program(source, files=files))).stdout.split()[:2] == [b"1", b"2"]


async def test_a_missing_script_and_a_missing_command_are_the_program_s_failure(pool: Pool) -> None:
    job = program("")
    missing = type(job)(("python", "nothing.py"), {})
    result = await pool.run(missing)
    assert (result.verdict, result.exit_code) == (Verdict.FAILED, 2)
    assert b"nothing.py" in result.stderr
    result = await pool.run(type(job)(("no-such-command",), {}))
    assert (result.verdict, result.exit_code) == (Verdict.FAILED, 127)
    assert b"no-such-command" in result.stderr


async def test_two_programs_draw_different_random_numbers(pool: Pool) -> None:
    job = program("import random, uuid\nprint(random.random(), uuid.uuid4())")
    assert len({(await pool.run(job)).stdout for _ in range(6)}) == 6
