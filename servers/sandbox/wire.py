"""Jobs and results between `gymwire sandbox serve` and its clients: JSON, bytes as base64."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import asdict

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from .jobs import Job, JobRefused, Limits, Result, Verdict

#: Paths of the server.
ABOUT, RUN, TALK = "/sandbox", "/sandbox/run", "/sandbox/talk"
#: What a client says when it closes a job's stdin.
END = "end"


class _Job(BaseModel):
    model_config = ConfigDict(extra="forbid")
    argv: list[str]
    files: dict[str, str]
    stdin: str
    limits: Limits
    collect: bool


class _Result(BaseModel):
    verdict: Verdict
    exit_code: int | None
    stdout: str
    stderr: str
    truncated: bool
    wall_s: float
    cpu_s: float
    files: dict[str, str]


def dump_job(job: Job) -> bytes:
    try:
        return orjson.dumps(
            {
                "argv": list(job.argv),
                "files": _texts(job.files),
                "stdin": _text(job.stdin),
                "limits": asdict(job.limits),
                "collect": job.collect,
            }
        )
    except orjson.JSONEncodeError as error:  # half surrogate pairs
        raise JobRefused(f"a job's words and names are text: {error}") from None


def load_job(data: bytes | str) -> Job:
    """Raises `JobRefused`."""
    try:
        read = _Job.model_validate_json(data)
        files = {name: b64decode(content, validate=True) for name, content in read.files.items()}
        return Job(read.argv, files, b64decode(read.stdin, validate=True), read.limits, read.collect)
    except (ValidationError, ValueError) as error:
        raise JobRefused(f"not a job: {' '.join(str(error).split())[:300]}") from None


def dump_result(result: Result) -> bytes:
    names = {
        name.encode(errors="surrogateescape").decode(errors="replace"): text for name, text in result.files.items()
    }
    return orjson.dumps(
        {
            **{name: getattr(result, name) for name in ("verdict", "exit_code", "truncated", "wall_s", "cpu_s")},
            "stdout": _text(result.stdout),
            "stderr": _text(result.stderr),
            "files": _texts(names),
        }
    )


def load_result(data: bytes | str) -> Result:
    """Raises `ValueError`."""
    read = _Result.model_validate_json(data)
    return Result(
        read.verdict,
        read.exit_code,
        b64decode(read.stdout),
        b64decode(read.stderr),
        read.truncated,
        read.wall_s,
        read.cpu_s,
        {name: b64decode(content) for name, content in read.files.items()},
    )


def _text(content: bytes) -> str:
    return b64encode(content).decode()


def _texts(files: object) -> dict[str, str]:
    assert isinstance(files, dict)
    return {name: _text(content) for name, content in files.items()}
