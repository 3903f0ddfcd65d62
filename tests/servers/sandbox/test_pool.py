"""Dispatch, fairness, and what becomes of jobs when a slot, an engine or a caller goes away."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from gymwire.servers.sandbox.docker import LABEL, Docker
from gymwire.servers.sandbox.jobs import Job, Limits, SandboxUnavailable, Verdict
from gymwire.servers.sandbox.line import Line
from gymwire.servers.sandbox.pool import Pool

from tests.servers.sandbox.backends import busy
from tests.servers.sandbox.conftest import CEILING
from tests.servers.sandbox.programs import HELLO, program
from tests.servers.sandbox.relay import Relay

pytestmark = pytest.mark.docker


@pytest.fixture
async def own(image: str) -> AsyncIterator[Pool]:
    """A pool that the test may break."""
    made = Pool(Docker(CEILING, image), slots=2)
    await made.open()
    yield made
    await made.close()
    await nothing_left()


async def nothing_left() -> None:
    """The engine has removed every container of this process."""
    async with asyncio.timeout(10):
        while containers():
            await asyncio.sleep(0.05)


def containers() -> list[str]:
    """Containers of this process, by their label."""
    command = ["docker", "ps", "-aq", "--no-trunc", "--filter", f"label={LABEL}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    inspect = ["docker", "inspect", "-f", '{{index .Config.Labels "' + LABEL + '"}}']
    owners = [subprocess.run([*inspect, one], capture_output=True, text=True).stdout for one in found]
    return [one for one, owner in zip(found, owners, strict=True) if f":{os.getpid()}:" in owner]


def container_of(line: Line) -> str:
    return line.slot.name.removeprefix("docker-")


def worker_of(line: Line) -> int:
    """The worker's process, as the host numbers it."""
    inspect = ["docker", "inspect", "-f", "{{.State.Pid}}", container_of(line)]
    return int(subprocess.run(inspect, capture_output=True, text=True, check=True).stdout)


async def whole(pool: Pool) -> None:
    """Every slot has its worker again."""
    async with asyncio.timeout(20):
        while len(pool.lines) < pool.slots:
            await asyncio.sleep(0.02)


async def test_200_jobs_at_once_spread_evenly_over_two_slots(own: Pool) -> None:
    jobs = [program("import time\ntime.sleep(0.01)\nprint(input())", stdin=b"%d" % n) for n in range(200)]
    results = await asyncio.gather(*(own.run(job) for job in jobs))
    assert [int(result.stdout) for result in results] == list(range(200))
    assert all(70 <= line.jobs <= 130 for line in own.lines), [line.jobs for line in own.lines]


async def test_jobs_are_served_in_the_order_of_arrival(own: Pool) -> None:
    """With one slot: of two, a starved one falls behind whatever the order."""
    single = Pool(own.launcher, 1)
    await single.open()
    try:
        job = program("import time\nprint(time.monotonic())")
        started = [float(result.stdout) for result in await asyncio.gather(*(single.run(job) for _ in range(20)))]
    finally:
        await single.close()
    assert started == sorted(started)


async def test_a_long_job_holds_up_no_other_slot(own: Pool) -> None:
    slow = asyncio.create_task(own.run(program("import time\ntime.sleep(2)")))
    await asyncio.sleep(0.1)
    started = time.monotonic()
    for _ in range(5):
        await own.run(HELLO)
    assert time.monotonic() - started < 1.5
    assert (await slow).verdict is Verdict.COMPLETED


@pytest.mark.parametrize("how", ["container", "worker"])
async def test_a_job_whose_slot_breaks_runs_again_on_another(own: Pool, how: str) -> None:
    running = asyncio.create_task(own.run(program("import time\ntime.sleep(1)\nprint('done')")))
    line = await busy(own)
    if how == "container":
        subprocess.run(["docker", "kill", container_of(line)], check=True, capture_output=True)
    else:
        os.kill(worker_of(line), signal.SIGKILL)
    assert (await running).stdout == b"done\n"
    await whole(own)
    assert line not in own.lines
    assert (await own.run(HELLO)).stdout == b"hello\n"


async def test_a_worker_that_is_stopped_is_killed_in_time(own: Pool) -> None:
    job = program("import time\ntime.sleep(0.2)\nprint('done')", wall_s=1.0)
    running = asyncio.create_task(own.run(job))
    line = await busy(own)
    worker = worker_of(line)
    os.kill(worker, signal.SIGSTOP)
    started = time.monotonic()
    while Path(f"/proc/{worker}").exists():
        assert time.monotonic() - started < job.limits.wall_s + 1.0, "no job outlives its limit by more than a second"
        await asyncio.sleep(0.01)
    assert (await running).stdout == b"done\n"


async def test_a_job_that_loses_two_slots_is_unavailable_and_never_a_result(own: Pool) -> None:
    running = asyncio.create_task(own.run(program("import time\ntime.sleep(5)")))
    for _ in range(2):
        line = await busy(own)
        os.kill(worker_of(line), signal.SIGKILL)
        while line in own.lines:
            await asyncio.sleep(0.005)
    with pytest.raises(SandboxUnavailable, match="twice"):
        await running
    await whole(own)
    assert (await own.run(HELLO)).stdout == b"hello\n"


async def test_a_slot_that_dies_idle_is_replaced_before_a_job_needs_it(own: Pool) -> None:
    first = set(own.lines)
    for line in first:
        subprocess.run(["docker", "kill", container_of(line)], check=True, capture_output=True)
    async with asyncio.timeout(10):
        while first & own.lines or len(own.lines) < own.slots:
            await asyncio.sleep(0.02)
    assert (await own.run(HELLO)).stdout == b"hello\n"


async def test_an_engine_that_stops_is_unavailable_and_one_that_returns_is_used(image: str, relay: Relay) -> None:
    pool = Pool(Docker(CEILING, image), slots=2)
    await pool.open()
    try:
        running = asyncio.create_task(pool.run(program("import time\ntime.sleep(20)")))
        await busy(pool)
        await relay.stop()
        with pytest.raises(SandboxUnavailable):
            async with asyncio.timeout(10):
                await running
        started = time.monotonic()
        with pytest.raises(SandboxUnavailable):
            await pool.run(HELLO)
        assert time.monotonic() - started < 5
        await relay.start()
        assert (await pool.run(HELLO)).stdout == b"hello\n"
    finally:
        await relay.start()
        await pool.close()


async def test_nobody_waits_longer_for_a_slot_than_the_queue_s_limit(image: str) -> None:
    pool = Pool(Docker(CEILING, image), slots=1, queue_timeout_s=0.3)
    await pool.open()
    try:
        slow = asyncio.create_task(pool.run(program("import time\ntime.sleep(1)")))
        await asyncio.sleep(0.05)
        with pytest.raises(SandboxUnavailable, match=r"0\.3 s"):
            await pool.run(HELLO)
        assert (await slow).verdict is Verdict.COMPLETED
    finally:
        await pool.close()


async def test_a_caller_that_leaves_ends_its_job_and_frees_the_slot(own: Pool) -> None:
    before = set(own.lines)
    callers = [asyncio.create_task(own.run(program("while True: pass", wall_s=20.0))) for _ in range(2)]
    waiting = [asyncio.create_task(own.run(HELLO)) for _ in range(2)]
    await asyncio.sleep(0.2)
    waiting[0].cancel()
    for caller in callers:
        caller.cancel()
    assert (await waiting[1]).stdout == b"hello\n"
    async with asyncio.timeout(5):
        while len(own.idle) < own.slots:
            await asyncio.sleep(0.01)
    assert own.lines == before, "the workers ended the jobs themselves"


async def test_an_old_slot_is_replaced_beside_the_work(image: str) -> None:
    pool = Pool(Docker(CEILING, image), slots=2, recycle_jobs=20)
    await pool.open()
    first = set(pool.lines)
    slowest = 0.0
    try:
        async with asyncio.timeout(20):
            while first & pool.lines:
                started = time.monotonic()
                await pool.run(HELLO)
                slowest = max(slowest, time.monotonic() - started)
        assert slowest < 0.4, "starting a container takes longer: nobody waited for it"
        await whole(pool)
        assert len(pool.lines) == pool.slots
    finally:
        await pool.close()


async def test_closing_ends_jobs_and_refuses_who_waits(image: str) -> None:
    pool = Pool(Docker(CEILING, image), slots=1)
    await pool.open()
    running = asyncio.create_task(pool.run(program("import time\ntime.sleep(20)")))
    waiting = asyncio.create_task(pool.run(HELLO))
    await asyncio.sleep(0.1)
    await pool.close()
    for task in (running, waiting):
        with pytest.raises(SandboxUnavailable):
            async with asyncio.timeout(5):
                await task
    await nothing_left()
    with pytest.raises(SandboxUnavailable):
        await pool.run(HELLO)


# ---- conversations


ECHO = "import sys\nfor line in sys.stdin:\n    print('heard', line.strip(), flush=True)\nprint('end')"


async def test_a_conversation_goes_back_and_forth(own: Pool) -> None:
    async with own.talk(program(ECHO, stdin=b"zero\n")) as talk:
        assert await talk.receive() == b"heard zero\n"
        for word in (b"one", b"two"):
            await talk.send(word + b"\n")
            assert await talk.receive() == b"heard " + word + b"\n"
        result = await talk.finish()
        assert result.verdict is Verdict.COMPLETED
        assert await talk.receive() == b"end\n"
        assert await talk.receive() == b""
    assert len(own.idle) == own.slots


async def test_much_is_said_both_ways(own: Pool) -> None:
    source = (
        "import sys\nwhile data := sys.stdin.buffer.read1(1 << 16): sys.stdout.buffer.write(data); sys.stdout.flush()"
    )
    said = os.urandom(900_000)
    heard = b""
    async with own.talk(program(source, output_bytes=1 << 20)) as talk:
        await talk.send(said)
        while len(heard) < len(said):
            heard += await talk.receive()
        assert (await talk.finish()).verdict is Verdict.COMPLETED
    assert heard == said


async def test_limits_hold_in_a_conversation_however_slow_the_caller_is(own: Pool) -> None:
    async with own.talk(program("while True: print('x' * 100)", output_bytes=50_000)) as talk:
        await asyncio.sleep(0.3)
        assert (await talk.finish()).verdict is Verdict.OUTPUT_LIMIT
    async with own.talk(program("input()", wall_s=0.3)) as talk:
        assert await talk.receive() == b""
        assert (await talk.finish()).verdict is Verdict.TIMEOUT


async def test_words_to_a_job_that_has_ended_are_dropped(own: Pool) -> None:
    async with own.talk(program("raise SystemExit(3)")) as talk:
        assert await talk.receive() == b""
        await talk.send(b"too late" * 100_000)
        assert (await talk.finish()).exit_code == 3
    assert (await own.run(HELLO)).stdout == b"hello\n"


async def test_leaving_a_conversation_ends_its_job(own: Pool) -> None:
    before = set(own.lines)
    for _ in range(2 * own.slots):
        async with own.talk(program("print('here', flush=True)\nwhile True: pass", wall_s=20.0)) as talk:
            await talk.receive()
            await talk.send(b"never read" * 10_000)
    assert (await own.run(HELLO)).stdout == b"hello\n"
    assert own.lines == before


async def test_a_conversation_whose_slot_breaks_is_unavailable(own: Pool) -> None:
    with pytest.raises(SandboxUnavailable):
        async with own.talk(program(ECHO)) as talk:
            os.kill(worker_of(await busy(own)), signal.SIGKILL)
            await talk.receive()
    await whole(own)
    assert (await own.run(HELLO)).stdout == b"hello\n"


# ---- the engine


async def test_a_missing_image_is_a_sentence_with_the_command(image: str) -> None:
    with pytest.raises(SandboxUnavailable, match=r"`docker pull no-such-image:1`"):
        await Pool(Docker(CEILING, "no-such-image:1")).open()


async def test_an_engine_that_does_not_answer_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    with pytest.raises(SandboxUnavailable, match=r"no container engine answers at unix://.*DOCKER_HOST"):
        await Pool(Docker(CEILING)).open()


async def test_containers_of_a_process_that_is_gone_are_removed_and_others_are_not(image: str, own: Pool) -> None:
    mine = set(containers())
    owner = subprocess.run(["docker", "inspect", *mine], capture_output=True, text=True, check=True)
    assert f":{os.getpid()}:" in owner.stdout
    label = Docker(CEILING, image).label()
    gone = label.replace(f":{os.getpid()}:", ":99999999:")
    foreign = "another-boot:1:99999999:5"
    left = [
        subprocess.run(
            ["docker", "run", "-d", "--label", f"{LABEL}={one}", image, "sleep", "60"], capture_output=True, text=True
        ).stdout.strip()
        for one in (gone, foreign)
    ]
    try:
        other = Pool(Docker(CEILING, image), slots=1)
        await other.open()
        await other.close()
        running = subprocess.run(["docker", "ps", "-aq", "--no-trunc"], capture_output=True, text=True).stdout.split()
        assert left[0] not in running and left[1] in running
        assert mine <= set(running)
    finally:
        subprocess.run(["docker", "rm", "-f", *left], capture_output=True)


async def test_a_container_ends_with_the_process_that_fed_it(image: str) -> None:
    script = (
        "import asyncio, sys, time\n"
        "from gymwire.servers.sandbox.docker import Docker\nfrom gymwire.servers.sandbox.pool import Pool\n"
        "from tests.servers.sandbox.conftest import CEILING\n"
        f"pool = Pool(Docker(CEILING, {image!r}), slots=1)\n"
        "async def main():\n    await pool.open()\n    print(*(line.slot.name for line in pool.lines), flush=True)\n"
        "    await asyncio.sleep(60)\nasyncio.run(main())\n"
    )
    import sys

    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    name = process.stdout.readline().strip().removeprefix("docker-")
    process.kill()
    process.wait()
    process.stdout.close()
    async with asyncio.timeout(10):
        while subprocess.run(["docker", "inspect", name], capture_output=True).returncode == 0:
            await asyncio.sleep(0.05)


async def test_the_container_is_as_hard_as_it_says(own: Pool) -> None:
    line = next(iter(own.lines))
    import json

    shown = json.loads(subprocess.run(["docker", "inspect", container_of(line)], capture_output=True).stdout)[0]
    host, config = shown["HostConfig"], shown["Config"]
    assert host["NetworkMode"] == "none" and host["IpcMode"] == "none" and host["ReadonlyRootfs"]
    assert host["CapDrop"] == ["ALL"] and not host["Privileged"] and not host["Binds"]
    assert any(option == "no-new-privileges" for option in host["SecurityOpt"])
    assert any("io_uring_setup" in option and "ptrace" in option for option in host["SecurityOpt"])
    assert host["Memory"] == host["MemorySwap"] > 0 and host["PidsLimit"] > 0 and host["NanoCpus"] > 0
    assert host["LogConfig"]["Type"] == "none" and not host["Init"] and host["AutoRemove"]
    assert config["User"] == "65534:65534"


async def test_a_job_reaches_no_network_and_writes_nowhere_but_in_tmp(own: Pool) -> None:
    source = """
import os, socket
print(sorted(os.listdir("/sys/class/net")))
try: socket.create_connection(("1.1.1.1", 53), timeout=1)
except OSError as error: print("no way out")
for folder, _, _ in os.walk("/"):
    if folder.startswith(("/proc", "/sys", "/tmp")): continue
    try: open(os.path.join(folder, "x"), "w"); print("wrote", folder)
    except OSError: pass
shown = ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp:")
print(os.getuid(), os.getgroups(), [line for line in open("/proc/self/status") if line.startswith(shown)])
"""
    result = await own.run(program(source, wall_s=20.0))
    lines = result.stdout.decode().splitlines()
    assert lines[:2] == ["['lo']", "no way out"], result
    assert not any(line.startswith("wrote") for line in lines)
    assert lines[-1].startswith("65534 []") or lines[-1].startswith("65534 [65534]")
    assert "CapEff:\\t0000000000000000" in lines[-1] and "CapBnd:\\t0000000000000000" in lines[-1]
    assert "NoNewPrivs:\\t1" in lines[-1] and "Seccomp:\\t2" in lines[-1]


async def test_the_first_job_after_a_start_takes_less_than_a_second_and_a_half(image: str) -> None:
    started = time.monotonic()
    pool = Pool(Docker(CEILING, image), slots=2)
    await pool.open()
    try:
        assert (await pool.run(HELLO)).stdout == b"hello\n"
        took_s = time.monotonic() - started
    finally:
        await pool.close()
    assert took_s < 1.5 or os.getloadavg()[0] > 2 * (os.cpu_count() or 1), (
        f"{took_s:.2f} s on a machine with nothing else to do"
    )


async def test_a_slot_refuses_more_than_its_ceiling(own: Pool) -> None:
    with pytest.raises(ValueError, match="memory_mb"):
        await own.run(Job(("true",), limits=Limits(memory_mb=CEILING.memory_mb + 1)))
