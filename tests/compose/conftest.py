"""One deployment for all tests of this folder: its images take most of the time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import docker_engine
from tests.compose.project import Project, deployed


@pytest.fixture(scope="session")
def deployment() -> Iterator[Project]:
    with deployed(docker_engine.required()) as running:
        yield running


@pytest.fixture
def project(deployment: Project) -> Project:
    """The deployment with a replica that runs, also where a test before has left none."""
    if not deployment.containers("envs"):
        deployment.up(1)
    return deployment


@pytest.fixture
def three(project: Project) -> Project:
    """The deployment with three replicas, whatever a test before has left."""
    project.up(3)
    return project
