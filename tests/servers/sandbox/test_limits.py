"""Every limit is a verdict, in time, and the next job finds the slot as new."""

from __future__ import annotations

import asyncio
import time

import pytest
from gymwire.servers.sandbox.jobs import Job, JobRefused, Limits, Verdict
from gymwire.servers.sandbox.pool import Pool

from tests.servers.sandbox.programs import HELLO, executed, program

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module")]

LOOKS_ROUND = """
import os
print(sorted(os.listdir("..")), os.listdir("."), [p for p in os.listdir("/proc") if p.isdigit() and int(p) > 1])
"""


async def clean(pool: Pool) -> None:
    """Nothing of an earlier job is there, in any slot."""
    for _ in range(pool.slots):
        result = await pool.run(program(LOOKS_ROUND))
        names, files, processes = result.stdout.decode().split("] [")
        assert names == "['job'" and files == "'main.py'", result
        assert processes.count(",") == 0, "only the job itself runs"


BREACHES = {
    "endless loop": ("while True: pass", {"wall_s": 0.5}, Verdict.TIMEOUT),
    "sleep": ("import time\ntime.sleep(60)", {"wall_s": 0.5}, Verdict.TIMEOUT),
    "ignores every signal": (
        "import signal, time\nfor n in range(1, 64):\n    try: signal.signal(n, signal.SIG_IGN)\n    except Exception: pass\n"
        "while True: time.sleep(1)",
        {"wall_s": 0.5},
        Verdict.TIMEOUT,
    ),
    "waits for stdin that has ended": ("import sys\nwhile True: sys.stdin.read()", {"wall_s": 0.5}, Verdict.TIMEOUT),
    "cpu": ("while True: pass", {"wall_s": 5.0, "cpu_s": 0.3}, Verdict.TIMEOUT),
    "cpu of many": (
        "import os\nfor _ in range(3): os.fork()\nwhile True: pass",
        {"wall_s": 10.0, "cpu_s": 0.5},
        Verdict.TIMEOUT,
    ),
    "closed its streams": (
        "import os, time\nos.close(1); os.close(2)\ntime.sleep(60)",
        {"wall_s": 0.5},
        Verdict.TIMEOUT,
    ),
    "memory at once": ("x = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1", {}, Verdict.OUT_OF_MEMORY),
    "memory by and by": ("x = []\nwhile True: x.append('x' * 100_000 + str(len(x)))", {}, Verdict.OUT_OF_MEMORY),
    "memory below the slot's": (
        "import time\nx = bytearray(b'x') * (100 << 20)\ntime.sleep(5)",
        {"memory_mb": 64},
        Verdict.OUT_OF_MEMORY,
    ),
    "memory of many": (
        "import os, time\nfor _ in range(3): os.fork()\nx = bytearray(os.urandom(1)) * (60 << 20)\ntime.sleep(5)",
        {"memory_mb": 200},
        Verdict.OUT_OF_MEMORY,
    ),
    "shared memory": (
        "import mmap, time\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1",
        {},
        Verdict.OUT_OF_MEMORY,
    ),
    "output": ("while True: print('x' * 1000)", {"wall_s": 5.0}, Verdict.OUTPUT_LIMIT),
    "output of errors": ("import sys\nwhile True: sys.stderr.write('x' * 1000)", {"wall_s": 5.0}, Verdict.OUTPUT_LIMIT),
    "files": (
        "import time\nfor n in range(50): open(f'f{n}', 'wb').write(b'x' * 100_000); time.sleep(n > 20)",
        {"files_bytes": 1 << 20, "wall_s": 5.0},
        Verdict.OUTPUT_LIMIT,
    ),
    "one file": ("open('f', 'wb').write(b'x' * (2 << 20))", {"files_bytes": 1 << 20}, Verdict.FAILED),
    "disk": ("while True: open('f', 'ab').write(b'x' * 1_000_000)", {}, Verdict.FAILED),
    "files without end": (
        "import os\nn = 0\nwhile True:\n    os.close(os.open(f'f{n}', os.O_CREAT))\n    n += 1",
        {},
        Verdict.FAILED,
    ),
    "segmentation fault": ("import ctypes\nctypes.string_at(0)", {}, Verdict.CRASHED),
    "kills itself": ("import os\nos.kill(os.getpid(), 9)", {}, Verdict.CRASHED),
    "too many threads": (
        "import threading, time\nfor _ in range(12): threading.Thread(target=time.sleep, args=(5,)).start()",
        {"processes": 8},
        Verdict.CRASHED,
    ),
}


@pytest.mark.parametrize("name", BREACHES)
async def test_a_breach_is_its_verdict_in_time_and_leaves_nothing(pool: Pool, name: str) -> None:
    source, limits, verdict = BREACHES[name]
    workers = set(pool.lines)
    for job in (program(source, **limits), executed(program(source, **limits))):
        started = time.monotonic()
        result = await pool.run(job)
        took_s = time.monotonic() - started
        assert result.verdict is verdict, result
        assert took_s < job.limits.wall_s + 1.0
    await clean(pool)
    assert set(pool.lines) == workers, "no worker had to be replaced"


ATTACKS = {
    "fork bomb": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "daemon": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(600)\n"
    "    os._exit(0)\nprint('done', flush=True)\nos._exit(0)",
    "daemon that floods": "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: os.write(1, b'x' * 4096)\n",
    "kills everybody": "import os\nos.fork()\nos.kill(-1, 9)",
    "kill pid 1": "import os, signal\nfor n in range(1, 65):\n    try: os.kill(1, n)\n    except OSError: pass\nprint('tried')",
    "stop pid 1": "import os, signal\nos.kill(1, signal.SIGSTOP)\nprint('tried')",
    "limits of pid 1": "import resource as r\nfor n in (r.RLIMIT_CPU, r.RLIMIT_NOFILE, r.RLIMIT_AS):\n"
    "    try: r.prlimit(1, n, (0, 0)); print('changed')\n    except PermissionError: pass",
    "memory of pid 1": "for n in ('mem', 'environ', 'fd', 'maps'):\n"
    "    try: print(open('/proc/1/' + n, 'rb').read(1))\n    except OSError: pass\n",
    "no rights on its folder": "import os\nos.makedirs('a/b/c')\nopen('a/b/c/f', 'w').close()\n"
    "for d in ('a/b/c', 'a/b', 'a', '.', '..'): os.chmod(d, 0)",
    "deep folders": "import os\nfor _ in range(3000):\n    os.mkdir('d' * 200); os.chdir('d' * 200)",
    "odd names": "import os\nfor n in (b'\\xff\\xfe', b'-rf', b'.1', b'a\\nb', b' '): open(n, 'w').close()\n"
    "os.mkfifo('p'); os.symlink('/etc/passwd', 'l'); os.symlink('.', 'me'); os.link('main.py', 'hard')",
    "elsewhere in tmp": "import os\nopen('/tmp/left', 'w').write('x'); os.mkdir('/tmp/.0'); os.mkdir('/tmp/.0/.0')",
    "own folder gone": "import os, shutil\nos.chdir('/')\nshutil.rmtree('/tmp/job')\nos.symlink('/etc', '/tmp/job')",
    "descriptors": "import os\nfor fd in range(3, 400):\n    try: os.write(fd, b'\\x0e' * 100); print('written', fd)\n    except OSError: pass",
    "big pipe": "import fcntl, os\nfcntl.fcntl(1, 1031, 1 << 20)\nos.write(1, b'x' * 900_000)",
    "does not block": "import os\nos.set_blocking(1, False); os.set_blocking(2, False); os.set_blocking(0, False)",
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_an_attack_reaches_nothing_and_leaves_nothing(pool: Pool, name: str) -> None:
    workers = set(pool.lines)
    started = time.monotonic()
    result = await pool.run(program(ATTACKS[name], wall_s=1.0))
    assert time.monotonic() - started < 2.0
    assert b"changed" not in result.stdout and b"written" not in result.stdout, result
    if name == "memory of pid 1":
        assert result.stdout == b""
    await clean(pool)
    assert set(pool.lines) == workers, "no worker had to be replaced"


async def test_a_job_that_changes_the_worker_s_priority_gets_a_verdict_and_the_worker_goes(pool: Pool) -> None:
    before = set(pool.lines)
    result = await pool.run(program("import os\nos.setpriority(os.PRIO_PROCESS, 1, 19)"))
    assert result.verdict is Verdict.COMPLETED
    assert (await pool.run(HELLO)).stdout == b"hello\n"
    while len(pool.lines) < pool.slots:
        await asyncio.sleep(0.01)
    assert set(pool.lines) != before


async def test_of_too_much_output_the_end_is_kept(pool: Pool) -> None:
    result = await pool.run(
        program("for n in range(100_000): print(n)\nwhile True: pass", output_bytes=1000, wall_s=5.0)
    )
    assert result.verdict is Verdict.OUTPUT_LIMIT
    assert result.truncated and len(result.stdout) == 1000
    numbers = [int(line) for line in result.stdout.split()[1:-1]]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


async def test_output_up_to_the_limit_is_whole(pool: Pool) -> None:
    result = await pool.run(program("print('x' * 999)", output_bytes=1000))
    assert (result.verdict, result.truncated, len(result.stdout)) == (Verdict.COMPLETED, False, 1000)


async def test_output_before_a_timeout_is_kept(pool: Pool) -> None:
    result = await pool.run(program("print('so far', flush=True)\nwhile True: pass", wall_s=0.3))
    assert (result.verdict, result.stdout) == (Verdict.TIMEOUT, b"so far\n")


async def test_a_large_stdin_arrives_whole(pool: Pool) -> None:
    data = bytes(range(256)) * 40_000
    result = await pool.run(
        program("import sys, hashlib\nprint(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())", stdin=data)
    )
    import hashlib

    assert result.stdout.decode().strip() == hashlib.sha256(data).hexdigest()


async def test_a_stdin_that_nobody_reads_holds_nothing_up(pool: Pool) -> None:
    result = await pool.run(program("print('done')", stdin=b"x" * 5_000_000))
    assert (result.verdict, result.stdout) == (Verdict.COMPLETED, b"done\n")


async def test_files_are_there_and_come_back(pool: Pool) -> None:
    source = "import os\nprint(open('data/in.bin', 'rb').read())\nopen('data/out.bin', 'wb').write(b'\\0\\xff')\n"
    source += "os.remove('main.py'); os.symlink('/etc/passwd', 'link'); os.mkfifo('pipe')"
    job = program(source, files={"data/in.bin": b"\x01"})
    result = await pool.run(Job(job.argv, job.files, collect=True))
    assert result.stdout == b"b'\\x01'\n"
    assert result.files == {"data/in.bin": b"\x01", "data/out.bin": b"\0\xff"}


async def test_files_beyond_the_limit_are_left_out_and_the_result_says_so(pool: Pool) -> None:
    source = "import os\nos.truncate(os.open('sparse', os.O_RDWR | os.O_CREAT), 1 << 20)\nopen('small', 'w').write('x')"
    job = program(source)
    result = await pool.run(Job(job.argv, job.files, limits=Limits(files_bytes=1 << 20, memory_mb=256), collect=True))
    assert result.truncated and "sparse" not in result.files and result.files["small"] == b"x"


@pytest.mark.parametrize(
    "job",
    [
        Job((), {}),
        Job(("a\0b",), {}),
        Job(("x",), {"../up": b""}),
        Job(("x",), {"/etc/passwd": b""}),
        Job(("x",), {"a/../../b": b""}),
        Job(("x",), {"": b""}),
        Job(("x",), {"f": b"x" * 2000}, limits=Limits(files_bytes=1000)),
        Job(("x",), {f"f{number}": b"" for number in range(3000)}),
        Job(("x",), {f"{number}/" + "d/" * 400 + "f": b"" for number in range(9)}),
        Job(("x",), limits=Limits(wall_s=1e9)),
        Job(("x",), limits=Limits(memory_mb=0)),
        Job(("x",), limits=Limits(cpu_s=float("nan"))),
    ],
)
async def test_what_no_slot_can_run_is_refused(pool: Pool, job: Job) -> None:
    with pytest.raises(JobRefused):
        await pool.run(job)


SECRET = "sesame-of-an-earlier-job"
READS_ITS_MEMORY = """
import re
needle = re.compile(b"sesame-of-an-[e]arlier-job")  # which is not itself what it finds
found = 0
with open("/proc/self/mem", "rb", 0) as memory:
    for line in open("/proc/self/maps"):
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        if "r" not in line.split()[1] or "[v" in line: continue
        try:
            memory.seek(start)
            found += len(needle.findall(memory.read(end - start)))
        except (OSError, ValueError, OverflowError): pass
print("found", found)
"""


async def test_a_job_finds_nothing_of_earlier_jobs_in_its_memory(pool: Pool) -> None:
    early = program(f"print('{SECRET}', input())", SECRET, stdin=SECRET.encode(), files={"note": SECRET.encode()})
    for _ in range(2 * pool.slots):
        assert SECRET.encode() in (await pool.run(early)).stdout
        await pool.run(executed(early))
    control = await pool.run(program(f"held = '{SECRET}'\n" + READS_ITS_MEMORY))
    assert int(control.stdout.split()[1]) > 0, "the search finds what is there"
    for _ in range(pool.slots):
        result = await pool.run(program(READS_ITS_MEMORY))
        assert result.stdout == b"found 0\n", result
