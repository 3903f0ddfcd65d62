"""The repositories of `swe`: what they hold, the bugs that can be put into them, and their hidden tests.

A folder of `repositories/` is one repository: `files/` as its authors keep it (right, with its own visible tests),
`repository.toml` with a summary and the bugs, and `probes.py`, the hidden tests. A bug replaces a text that stands
exactly once in one file. A probe is a function without arguments that uses the repository and returns a plain
value; what it returns for the right files is what it must return, so no expected value is ever written down.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "repositories"
#: Repositories whose bugs are rows of eval; all others' are rows of train.
HELD_OUT = ("bookings", "markup", "priorities", "units")


class BadRepository(Exception):
    """A repository's folder does not say what it must."""


@dataclass(frozen=True, slots=True)
class Bug:
    """`right` in the repository's file becomes `wrong`; `report` is what its users say about it."""

    name: str
    file: str
    right: str
    wrong: str
    report: str


@dataclass(frozen=True, slots=True)
class Repository:
    name: str
    summary: str
    files: Mapping[str, bytes]
    probes: bytes
    bugs: Mapping[str, Bug]

    def with_bug(self, bug: Bug) -> dict[str, bytes]:
        """The files a policy is given."""
        text = self.files[bug.file].decode()
        return {**self.files, bug.file: text.replace(bug.right, bug.wrong).encode()}


def names() -> list[str]:
    return sorted(place.name for place in FOLDER.iterdir() if place.is_dir())


@cache
def load(name: str) -> Repository:
    """One repository; raises `BadRepository` with the place of what is wrong."""
    place = FOLDER / name
    if name not in names():
        raise BadRepository(f"there is no repository {name!r:.60}; there are: {', '.join(names())}")
    about = tomllib.loads((place / "repository.toml").read_text(encoding="utf-8"))
    files = {path.relative_to(place / "files").as_posix(): path.read_bytes() for path in _files(place / "files")}
    bugs = {told["name"]: Bug(**told) for told in about["bugs"]}
    repository = Repository(name, about["summary"], files, (place / "probes.py").read_bytes(), bugs)
    for bug in bugs.values():
        _check(repository, bug)
    return repository


def _check(repository: Repository, bug: Bug) -> None:
    """Both ways have to be one edit: into the bug and, for whoever mends it, back."""
    right = repository.files.get(bug.file, b"").decode()
    if right.count(bug.right) != 1 or repository.with_bug(bug)[bug.file].decode().count(bug.wrong) != 1:
        raise BadRepository(f"{repository.name}: bug {bug.name!r}: right and wrong stand once each in {bug.file}")


def _files(folder: Path) -> list[Path]:
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return sorted(paths)
