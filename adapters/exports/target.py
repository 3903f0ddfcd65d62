"""What a target is: a name, the versions it is written for, and a function from facts and options to files."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .facts import Facts

MODEL = "Qwen/Qwen3-4B-Instruct-2507"
BASE_URL = "http://127.0.0.1:8000/v1"
API_KEY_VAR = "OPENAI_API_KEY"


@dataclass(frozen=True, slots=True)
class Options:
    """What a command line may say about the other stack."""

    version: str
    out: Path  # where the files will be, absolute
    model: str = MODEL
    base_url: str = BASE_URL
    api_key_var: str = API_KEY_VAR

    @property
    def folder(self) -> str:
        """`out` as a shell's word."""
        return shlex.quote(str(self.out))


@dataclass(frozen=True, slots=True)
class Export:
    """Files by path, and what to tell at the end beside that they were written."""

    files: Mapping[str, str]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """`versions`: those that it can be written for, the default first."""

    name: str
    versions: tuple[str, ...]
    export: Callable[[Facts, Options], Export]
    needs_rows: bool = True
