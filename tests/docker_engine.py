"""A container engine for tests, and an image with Python in it.

    python -m tests.docker_engine [start]     start the engine, make the image, print its name
    python -m tests.docker_engine stop        stop the engine that was started here

An engine that answers is used as it is. Else dockerd is started, by root, and left running: the next run finds it.
Where REQUIRE_DOCKER=1, docker.io is also installed first (apt-get), and what cannot be had fails the tests instead of
skipping them. The image is $GYMWIRE_TEST_IMAGE, or python:3.12-slim where the engine has it, or one made here by
debootstrap (a registry need not be reachable): `gymwire-test-python:KEY`, also tagged `:latest`, kept as a file in the
cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from gymwire.servers.sandbox.docker import IMAGE, engine_answers

NAME = "gymwire-test-python"
SUITE = "bookworm"
PACKAGES = "python3,python3-pip,python3-venv,ca-certificates"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
UNNEEDED = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man")
START_TIMEOUT_S, INSTALL_TIMEOUT_S = 30.0, 900
#: What a daemon that was killed leaves, and the next one trips over: whose pid, and where. The pid may be another
#: program's by now (a machine that was started from a copy of a disk numbers its processes anew).
STALE = (("dockerd", "/var/run/docker.pid"), ("containerd", "/var/run/docker/containerd/containerd.pid"))
STALE_SOCKETS = ("/var/run/docker.sock", "/var/run/docker/containerd/containerd.sock")


class EngineMissing(Exception):
    """This machine cannot have an engine, or the image; the message says why."""


def image() -> str:
    """The name of an image with python3 on an engine that answers. Raises `EngineMissing`."""
    with locked():
        if not engine_answers():
            _start()
        return os.environ.get("GYMWIRE_TEST_IMAGE") or _ordinary() or _made()


def required() -> str:
    """For tests: `image()`, or a skip with the reason, or a failure where REQUIRE_DOCKER=1."""
    import pytest  # the command line works without it

    try:
        return image()
    except EngineMissing as missing:
        reason = f"container engine: {missing}"
    if os.environ.get("REQUIRE_DOCKER") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


# ---- the engine


def _start() -> None:
    if os.environ.get("DOCKER_HOST"):
        raise EngineMissing(f"nothing answers at DOCKER_HOST={os.environ['DOCKER_HOST']}")
    if os.geteuid() != 0:
        raise EngineMissing("none answers, and only root can start one")
    if shutil.which("dockerd") is None:
        _install("docker.io", "dockerd")
    _remove_stale()
    log = cache() / "dockerd.log"
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            ["dockerd"], stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    _pid_file().write_text(str(daemon.pid))
    end = time.monotonic() + START_TIMEOUT_S
    while not engine_answers():
        if daemon.poll() is not None or time.monotonic() > end:
            daemon.kill()
            raise EngineMissing(f"dockerd does not start here: {_last_line(log)} (all of it: {log})")
        time.sleep(0.05)
    daemon.returncode = 0  # it outlives this process on purpose: no warning of a child that still runs


def stop() -> None:
    """Stop the engine that `image` started; another one is left alone."""
    with suppress(OSError, ValueError):
        pid = int(_pid_file().read_text())
        if runs(pid, "dockerd"):
            os.kill(pid, signal.SIGTERM)
            end = time.monotonic() + START_TIMEOUT_S
            while runs(pid, "dockerd") and time.monotonic() < end:
                time.sleep(0.05)
        _pid_file().unlink()


def runs(pid: int, program: str) -> bool:
    """Whether `pid` is a process of `program` that is not a zombie."""
    try:
        before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return False
    return before.partition("(")[2] == program and after.split()[0] != "Z"


def _remove_stale() -> None:
    for program, path in STALE:
        with suppress(OSError, ValueError):
            if not runs(int(Path(path).read_text()), program):
                Path(path).unlink()
    for path in STALE_SOCKETS:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                Path(path).unlink()
            except OSError:
                continue


def _install(package: str, program: str) -> None:
    if os.environ.get("REQUIRE_DOCKER") != "1":
        raise EngineMissing(f"{program} is not installed (`apt-get install {package}`; REQUIRE_DOCKER=1 does it)")
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise EngineMissing(f"{program} is not installed, and only root of a Debian system can have it installed here")
    run(["apt-get", "update", "-q"])
    run(["apt-get", "install", "-y", "-q", "--no-install-recommends", package])


# ---- the image


def _ordinary() -> str:
    return IMAGE if _has(IMAGE) else ""


def _made() -> str:
    key = hashlib.sha256("\0".join((SUITE, PACKAGES, *UNNEEDED)).encode()).hexdigest()[:12]
    name = f"{NAME}:{key}"
    if not _has(name):
        archive = cache() / f"image-{key}.tar"
        if not archive.exists():
            _bootstrap(archive)
        options = ["-c", f"ENV PIP_CERT={AUTHORITIES}", "-c", "ENV LANG=C.UTF-8"]
        run([_docker(), "import", *options, str(archive), name])
        run([_docker(), "tag", name, f"{NAME}:latest"])
    return name


def _bootstrap(archive: Path) -> None:
    """A Debian system with Python, as a tar file."""
    if os.geteuid() != 0:
        raise EngineMissing(f"the engine has no {IMAGE} (`docker pull {IMAGE}`), and only root can make an image here")
    if shutil.which("debootstrap") is None:
        _install("debootstrap", "debootstrap")
    root, half = archive.with_suffix(".root"), archive.with_suffix(".part")
    shutil.rmtree(root, ignore_errors=True)
    try:
        run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root)])
        for path in UNNEEDED:
            shutil.rmtree(root / path, ignore_errors=True)
        if AUTHORITIES.exists():  # of this machine: its registries of packages may have one of their own
            shutil.copy(AUTHORITIES, root / AUTHORITIES.relative_to("/"))
        run(["tar", "-C", str(root), "-cf", str(half), "."])
        half.rename(archive)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _has(name: str) -> bool:
    return subprocess.run([_docker(), "image", "inspect", name], capture_output=True).returncode == 0


def _docker() -> str:
    found = shutil.which("docker")
    if found is None:
        _install("docker.io", "docker")
        found = shutil.which("docker")
    return found or "docker"


# ---- small things


def run(command: Sequence[str]) -> None:
    """Run a program that installs or makes something. Raises `EngineMissing` with its last line."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineMissing(f"{command[0]} failed: {error}") from None
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        raise EngineMissing(f"`{' '.join(command[:3])} ...` failed: {last}")


def _last_line(log: Path) -> str:
    return log.read_text(errors="replace").strip().rpartition("\n")[2]


def cache() -> Path:
    """Where an engine's things are kept between runs."""
    chosen = os.environ.get("GYMWIRE_CACHE")
    root = Path(chosen).expanduser() if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = (root if chosen else root / "gymwire") / "docker"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _pid_file() -> Path:
    return cache() / "dockerd.pid"


@contextmanager
def locked() -> Iterator[None]:
    """One process at a time makes what is kept in `cache`."""
    with (cache() / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    if sys.argv[1:] == ["stop"]:
        stop()
    else:
        print(image())
