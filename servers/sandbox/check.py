"""Whether the sandbox holds what its backend claims on this machine: every limit is attacked, and the job after it too.

Nothing is taken from documentation: a limit holds when its attacks (`attacks/`) were stopped as they have to be, in
time, and the job after each found the slot as new.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .attacks import ATTACKS, Attack, Limit
from .attacks.attack import PRELUDE
from .jobs import PYTHON, Job, Limits, Result, SandboxUnavailable, Verdict
from .pool import Pool
from .slots import Launcher

VARIABLE = "GYMWIRE_CHECK_SECRET"
#: No job outlives its wall limit by more (seconds).
LATE_S = 1.0
#: What the backends without isolation claim; every other backend claims all.
CLAIMS = {"subprocess": frozenset({Limit.WALL, Limit.CPU, Limit.MEMORY, Limit.OUTPUT})}

_PROBE = """
import os
found = [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]
found += [name for name in os.listdir(os.environ["TMPDIR"]) if name != os.path.basename(os.getcwd())]
found += [name for name in os.listdir(".") if name != "main.py"]
kept = bytearray(b"x") * (16 << 20)
if os.fork() == 0:
    os._exit(3)
print("clean" if os.wait()[1] >> 8 == 3 and not found else found)
"""
_SLOT_PROBE = "print('clean')"


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one attack; `held` is None where the backend does not claim its limit, and nothing was tried."""

    limit: Limit
    attack: str
    claimed: bool
    held: bool | None
    evidence: str


@dataclass(frozen=True, slots=True)
class Checker:
    """Attacks one slot; `asked` is what the programs are told of the host."""

    pool: Pool
    asked: bytes
    isolated: bool

    async def run(self, program: str, limits: Limits | None = None) -> Result:
        files = {"main.py": program.encode()}
        return await self.pool.run(Job((PYTHON, "main.py"), files, stdin=self.asked, limits=limits or Limits()))

    async def attack(self, attack: Attack) -> Finding:
        """Raises nothing that the attack could cause."""
        try:
            if attack.plant:
                await self.run(attack.plant, attack.limits)
            started = time.monotonic()
            result = await self.run(attack.program, attack.limits)
            took_s = time.monotonic() - started
            after = await self.run(_PROBE if self.isolated else _SLOT_PROBE)
        except SandboxUnavailable as error:
            return Finding(attack.limit, attack.name, True, False, f"the sandbox broke: {error}")
        wrong = [*_wrong(attack, result, took_s), *_unclean(after)]
        return Finding(attack.limit, attack.name, True, not wrong, "; ".join(wrong) or _evidence(result))


async def check(make: Callable[[], Launcher], attacks: tuple[Attack, ...] = ATTACKS) -> AsyncIterator[Finding]:
    """Attack a backend; a finding for every attack, as they come. Raises `SandboxUnavailable` where it does not start.

    `make`: a new launcher, for the slot that is attacked and for the two of attacks on each other.
    """
    claims = CLAIMS.get(make().name, frozenset(Limit))
    for attack in attacks:
        if attack.limit not in claims:
            yield Finding(attack.limit, attack.name, False, None, "not claimed by this backend")
    ours = [attack for attack in attacks if attack.limit in claims]
    with _host() as asked:
        async with _checker(make, 1, asked) as checker:
            for attack in ours:
                if not attack.beside:
                    yield await checker.attack(attack)
        async with _checker(make, 2, asked) as checker:
            for attack in ours:
                if attack.beside:
                    yield await _attack_beside(checker, attack)


@asynccontextmanager
async def _checker(make: Callable[[], Launcher], slots: int, asked: bytes) -> AsyncIterator[Checker]:
    pool = Pool(make(), slots)
    await pool.open()
    try:
        yield Checker(pool, asked, isolated=pool.launcher.name not in CLAIMS)
    finally:
        await pool.close()


async def _attack_beside(checker: Checker, attack: Attack) -> Finding:
    beside = asyncio.create_task(checker.run(attack.beside, attack.limits))
    finding = await checker.attack(attack)
    await beside
    return finding


def _wrong(attack: Attack, result: Result, took_s: float) -> Iterator[str]:
    if result.verdict not in attack.verdicts:
        yield f"verdict {result.verdict} in {took_s:.1f} s, wanted {' or '.join(sorted(attack.verdicts))}"
    elif attack.exit_code is not None and result.exit_code != attack.exit_code:
        yield f"exit status {result.exit_code}, wanted {attack.exit_code}"
    if took_s > attack.limits.wall_s + LATE_S:
        yield f"took {took_s:.1f} s of {attack.limits.wall_s:g}"
    if max(len(result.stdout), len(result.stderr)) > attack.limits.output_bytes:
        yield "kept more output than the limit"
    told = _last_line(result.stdout)
    if result.verdict is Verdict.COMPLETED and attack.program.startswith(PRELUDE) and not told.startswith("HELD"):
        yield told or _last_line(result.stderr) or "said nothing"


def _unclean(after: Result) -> Iterator[str]:
    if after.verdict is not Verdict.COMPLETED or after.stdout.strip() != b"clean":
        yield f"the next job found: {after.verdict}, {_last_line(after.stdout) or _last_line(after.stderr)}"


def _evidence(result: Result) -> str:
    told = _last_line(result.stdout)
    if told.startswith("HELD"):
        return told.removeprefix("HELD ")
    status = "" if result.exit_code is None else f", exit status {result.exit_code}"
    return f"{result.verdict} after {result.wall_s:.2f} s{status}"


def _last_line(output: bytes) -> str:
    return output.decode(errors="replace").rstrip().rpartition("\n")[2][:400]


@contextmanager
def _host() -> Iterator[bytes]:
    """Things of this machine that no job may reach, while they exist; described as JSON for the programs."""
    secret = secrets.token_hex(16)
    with ExitStack() as stack:
        folder = tempfile.mkdtemp(prefix="gymwire-check-")
        stack.callback(shutil.rmtree, folder)
        os.chmod(folder, 0o755)  # nothing but the sandbox hides it
        Path(folder, "secret").write_text(secret)
        os.environ[VARIABLE] = secret
        stack.callback(os.environ.pop, VARIABLE)
        abstract = f"gymwire-check-{secret[:8]}"
        doors = [_listen(stack, socket.AF_UNIX, address) for address in (f"{folder}/socket", f"\0{abstract}")]
        doors += [_listen(stack, socket.AF_INET, (address, 0)) for address in _addresses()]
        yield json.dumps(
            {
                "secret": secret,
                "variable": VARIABLE,
                "folder": folder,
                "home": str(Path.home()),
                "package": str(Path(__file__).parent),
                "abstract": abstract,
                "doors": [door.getsockname() for door in doors if door.family == socket.AF_INET],
            }
        ).encode()


def _listen(stack: ExitStack, family: socket.AddressFamily, address: str | tuple[str, int]) -> socket.socket:
    door = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
    door.bind(address)
    door.listen()
    return door


def _addresses() -> list[str]:
    """This machine's own, and the one it uses to speak with others."""
    found = ["127.0.0.1"]
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.connect(("192.0.2.1", 9))
        found.append(line.getsockname()[0])
    return found
