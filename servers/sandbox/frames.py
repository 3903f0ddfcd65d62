"""Jobs and results as the bytes that `worker.py` reads and writes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from . import worker
from .jobs import Job, JobRefused, Limits, Result, Verdict

SOURCE = Path(worker.__file__)
MEGABYTE = 1 << 20
MAX_STDIN_BYTES = 64 * MEGABYTE
STDIN_PIECE = 32_768
_VERDICTS = tuple(Verdict(name) for name in worker.VERDICTS)


def frame(kind: int, *parts: bytes) -> bytes:
    return b"".join((worker.HEADER.pack(kind, sum(map(len, parts))), *parts))


def job_frame(job: Job, *, talk: bool) -> bytes:
    limits = job.limits
    flags = (worker.TALK if talk else 0) | (worker.COLLECT if job.collect else 0)
    head = worker.LIMITS.pack(
        limits.wall_s,
        limits.cpu_s,
        limits.memory_mb * MEGABYTE,
        limits.processes,
        limits.output_bytes,
        limits.files_bytes,
        flags,
        len(job.stdin),
    )
    argv = [_counted(word.encode(errors="surrogateescape")) for word in job.argv]
    files = [_counted(name.encode()) + _counted(content) for name, content in job.files.items()]
    count = worker.COUNT.pack
    return frame(worker.JOB, head, count(len(argv)), *argv, count(len(files)), *files, job.stdin)


def _counted(content: bytes) -> bytes:
    return worker.COUNT.pack(len(content)) + content


def result(body: bytes, files: dict[str, bytes]) -> tuple[Result, bool]:
    """The result, and whether the worker ends itself after it."""
    verdict, code, flags, wall_s, cpu_s, out, _ = worker.OUTCOME.unpack_from(body)
    start = worker.OUTCOME.size
    made = Result(
        verdict=_VERDICTS[verdict],
        exit_code=None if code < 0 else code,
        stdout=body[start : start + out],
        stderr=body[start + out :],
        truncated=bool(flags & worker.TRUNCATED),
        wall_s=wall_s,
        cpu_s=cpu_s,
        files=files,
    )
    return made, bool(flags & worker.SPENT)


def collected(body: bytes) -> tuple[str, bytes]:
    """A file that the job left, by its path in the job's folder."""
    (length,) = worker.COUNT.unpack_from(body)
    start = worker.COUNT.size + length
    return body[worker.COUNT.size : start].decode(errors="surrogateescape"), body[start:]


def check(job: Job, ceiling: Limits) -> None:
    """Raises `JobRefused` for what no slot of this sandbox can run."""
    if not job.argv or any("\0" in word for word in job.argv):
        raise JobRefused("a job's argv is at least one word, without NUL characters")
    for name in Limits.__slots__:
        asked, most = getattr(job.limits, name), getattr(ceiling, name)
        if not 0 < asked <= most:
            raise JobRefused(f"a job asks for {name} = {asked:g}; this sandbox gives above 0, up to {most:g}")
    if len(job.stdin) > MAX_STDIN_BYTES:
        raise JobRefused(f"a job's stdin has {len(job.stdin):,} bytes; this sandbox takes {MAX_STDIN_BYTES:,}")
    if sum(map(len, job.files.values())) > job.limits.files_bytes:
        raise JobRefused(f"a job's files are larger than its limit of {job.limits.files_bytes:,} bytes")
    check_names(job.files)


def check_names(names: Iterable[str]) -> None:
    for name in names:
        parts = PurePosixPath(name).parts
        if not name or name[0] == "/" or ".." in parts or "\0" in name or str(PurePosixPath(name)) != name:
            raise JobRefused(f"a job's file is a plain path inside its folder, not {name!r}")
