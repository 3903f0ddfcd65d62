"""The real peers, each in an environment of its own: made once, kept in a cache outside the clone.

No single Python environment can hold all the peers, so every requirements file here becomes one virtual
environment (or one npm folder), named by a hash of what goes into it. Several processes may ask at once:
one builds under a file lock, the others wait. A half-made one lacks its completion mark and is made again.

    python -m tests.peers.venvs [NAME ...]     builds all (or the named) in advance, two at a time

POSIX only (file locks, `bin/` folders). Old environments stay in the cache until somebody deletes it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[2]
REQUIREMENTS = Path(__file__).parent / "requirements"
INSTALL_TIMEOUT_S = 1800
NODE_MAJOR = 22

T = TypeVar("T")
_refused: dict[str, str] = {}  # what this process could not make: not tried again for every test


class PeerMissing(Exception):
    """This machine cannot have the peer; the message says why."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A requirements file, the Python versions it runs on (the first found is taken), extra pip options."""

    requirements: str
    pythons: tuple[str, ...]
    pip_options: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()  # what comes along and breaks the rest


PEERS = {
    "openenv": Peer("openenv.txt", ("3.11", "3.12", "3.13")),
    "openenv_core": Peer("openenv_core.txt", ("3.11", "3.12", "3.13")),
    "verifiers": Peer("verifiers.txt", ("3.11", "3.12", "3.13")),
    "verifiers_0_3": Peer("verifiers_0_3.txt", ("3.11", "3.12", "3.13")),
    # It declares a later 3.13 patch release than it needs.
    "nemo_gym_0_7": Peer("nemo_gym_0_7.txt", ("3.13",), ("--ignore-requires-python",)),
    "nemo_gym_0_4": Peer("nemo_gym_0_4.txt", ("3.12", "3.13")),
    "ray": Peer("ray.txt", ("3.11", "3.12", "3.13")),
    # Their builds from the package index fail to import beside a CPU build of torch, and transformers imports them.
    "trainer_cpu": Peer("trainer_cpu.txt", ("3.11",), unwanted=("torchvision", "torchaudio", "torchcodec")),
}
NODE_PACKAGES = {
    "conformance": "@modelcontextprotocol/conformance",
    "inspector": "@modelcontextprotocol/inspector",
    "everything": "@modelcontextprotocol/server-everything",
}


def peer_python(name: str) -> Path:
    """The interpreter of the peer's virtual environment, which is made first where it does not exist."""
    peer = PEERS[name]
    python, version = find_python(peer.pythons)
    requirements = (REQUIREMENTS / peer.requirements).read_text()
    key = _digest(requirements, version, sys.platform, *peer.pip_options, *peer.unwanted)
    return _made_once(f"{name}-{key}", lambda folder: _make_venv(folder, python, peer)) / "bin" / "python"


def beside_peer(name: str, *more: str) -> Path:
    """The interpreter of a peer's environment that holds this clone as well, installed anew each time.

    Raises `PeerMissing`, or `CalledProcessError` of pip.
    """
    python = peer_python(name)
    install = [str(python), "-m", "pip", "install", "--no-input", "--quiet", "-e", str(ROOT), *more]
    subprocess.run(install, env=peer_env(python), cwd=ROOT, check=True)
    return python


def peer_env(python: Path) -> dict[str, str]:
    """This process's environment, the peer's commands first on PATH, without our own Python's settings."""
    kept = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}}
    return kept | {"PATH": f"{python.parent}{os.pathsep}{kept.get('PATH', os.defpath)}"}


def node_tool(name: str) -> list[str]:
    """The start of a command line (Node and the script) of a tool from the npm registry."""
    folder = node_folder()
    package = folder / "node_modules" / NODE_PACKAGES[name]
    commands = json.loads((package / "package.json").read_text())["bin"]
    script = commands if isinstance(commands, str) else next(iter(commands.values()))
    own_node = folder / "node_modules" / "node" / "bin" / "node"
    return [str(own_node if own_node.exists() else _system_node()), str(package / script)]


def node_folder() -> Path:
    """The npm folder of all Node tools, with a Node of its own where the system's is too old."""
    manifest = json.loads((REQUIREMENTS / "mcp_tools.json").read_text())
    if _node_major() >= NODE_MAJOR:
        del manifest["dependencies"]["node"]
    text = json.dumps(manifest, indent=2, sort_keys=True)
    return _made_once(f"node-{_digest(text, sys.platform)}", lambda folder: _npm_install(folder, text))


def required(get: Callable[[str], T], name: str) -> T:
    """For tests: `get(name)`, or a skip with the reason, or a failure where REQUIRE_PEERS=1."""
    import pytest  # the command line below works without it

    try:
        return get(name)
    except PeerMissing as missing:
        reason = f"peer {name}: {missing}"
    if os.environ.get("REQUIRE_PEERS") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def find_python(versions: Sequence[str]) -> tuple[Path, str]:
    """An interpreter that really is one of the versions (a pyenv shim may refuse), and its full version."""
    for version in versions:
        for candidate in _candidates(version):
            full = _version_of(candidate)
            if full.startswith(f"{version}."):
                return candidate, full
    raise PeerMissing(f"needs Python {' or '.join(versions)}, and none was found (on PATH, in pyenv or uv)")


def _candidates(version: str) -> Iterator[Path]:
    yield Path(sys.executable)
    if found := shutil.which(f"python{version}"):
        yield Path(found)
    pyenv_root = Path(os.environ.get("PYENV_ROOT") or _output(["pyenv", "root"]) or Path.home() / ".pyenv")
    yield from sorted(pyenv_root.glob(f"versions/{version}.*/bin/python"), reverse=True)
    if found := _output(["uv", "python", "find", "--no-project", version]):
        yield Path(found)


def _version_of(python: Path) -> str:
    return _output([str(python), "-c", "import platform, venv, ensurepip; print(platform.python_version())"])


def _output(command: Sequence[str]) -> str:
    """What the command prints, or nothing where it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _system_node() -> str:
    return shutil.which("node") or ""


def _node_major() -> int:
    version = _output([_system_node() or "node", "--version"])
    return int(version.removeprefix("v").split(".")[0]) if version else 0


def cache_root() -> Path:
    """Outside the clone, so that a fresh clone finds what an earlier one built."""
    if chosen := os.environ.get("GYMWIRE_CACHE"):
        return Path(chosen).expanduser() / "peers"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gymwire" / "peers"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of that name, made by one process while the others wait; marked only when it is whole.

    It is made in place: the scripts of a virtual environment hold its path, so it cannot be moved afterwards.
    """
    folder = cache_root() / name
    mark = folder / ".complete"
    if mark.exists():
        return folder
    if name in _refused:
        raise PeerMissing(_refused[name])
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock")):
        if not mark.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            try:
                make(folder)
            except PeerMissing as missing:
                _refused[name] = str(missing)
                raise
            mark.touch()
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make_venv(folder: Path, python: Path, peer: Peer) -> None:
    _install([str(python), "-m", "venv", str(folder)], folder)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--no-input", *peer.pip_options]
    _install([*pip, "-r", str(REQUIREMENTS / peer.requirements)], folder)
    if peer.unwanted:
        _install([*pip[:3], "uninstall", "--yes", *peer.unwanted], folder)


def _npm_install(folder: Path, manifest: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise PeerMissing("needs npm, which was not found on PATH")
    (folder / "package.json").write_text(manifest)
    _install([npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder)], folder)


def _install(command: list[str], folder: Path) -> None:
    """Run one installing command; its output goes to a log beside the folder, which explains a failure."""
    log = folder.with_suffix(".log")
    with log.open("a") as output:
        try:
            done = subprocess.run(
                command,
                stdout=output,
                stderr=output,
                cwd=folder,
                env=peer_env(Path(command[0])),
                timeout=INSTALL_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            raise PeerMissing(f"installing took longer than {INSTALL_TIMEOUT_S} s; see {log}") from None
    if done.returncode != 0:
        raise PeerMissing(f"installing failed: {_last_error(log)} (all of it: {log})")


def _last_error(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if "error" in line.lower()]
    return lines[-1].strip() if lines else "no message"


def build(names: Sequence[str]) -> int:
    """Make the named peers, two at a time, with a line for each change; how many could not be made."""
    started = time.monotonic()
    failures = 0
    with ThreadPoolExecutor(2) as pool:
        pending = {pool.submit(_build_one, name): name for name in names}
        while pending:
            done, _ = wait_for(pending, timeout=30, return_when=FIRST_COMPLETED)
            failures += sum(not _report(future, pending.pop(future), started) for future in done)
            if not done:
                _say(started, f"still to be made: {', '.join(pending.values())}")
    return failures


def _build_one(name: str) -> Path:
    return node_folder() if name == "node" else peer_python(name)


def _report(future: Future[Path], name: str, started: float) -> bool:
    error = future.exception()
    if error is not None and not isinstance(error, PeerMissing):
        raise error
    _say(started, f"{name} missing: {error}" if error else f"{name} ready: {future.result()}")
    return error is None


def _say(started: float, text: str) -> None:
    print(f"peers: {time.monotonic() - started:4.0f} s  {text}", flush=True)


def main(arguments: Sequence[str]) -> int:
    everything = ["trainer_cpu", "nemo_gym_0_7", "nemo_gym_0_4", "verifiers", "verifiers_0_3"]  # the longest first
    everything += ["openenv", "ray", "node"]
    names = list(arguments) or everything
    if unknown := set(names) - set(everything):
        print(f"unknown peers: {', '.join(sorted(unknown))}; known: {', '.join(everything)}", file=sys.stderr)
        return 2
    print(f"peers: building {', '.join(names)} in {cache_root()}", flush=True)
    missing = build(names)
    return 1 if missing and os.environ.get("REQUIRE_PEERS") == "1" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
