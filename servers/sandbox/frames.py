"""Jobs and results as the bytes that `worker.py` reads and writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from . import worker
from .jobs import Job, JobRefused, Limits, Result, Verdict

SOURCE = Path(worker.__file__)
MEGABYTE = 1 << 20
#: A file system's usual limits, with room for the folder that a job's own lies in.
MAX_NAME_BYTES, MAX_PATH_BYTES = 255, 3_800
#: Files and folders that a slot's file system holds, and how many of them may be there when a job begins.
SLOT_FILES = 4096
MAX_ENTRIES = SLOT_FILES // 2
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
    argv = [_counted(os.fsencode(word)) for word in job.argv]
    files = [_counted(os.fsencode(name)) + _counted(content) for name, content in job.files.items()]
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
    if not job.argv or not all(map(_can_cross, job.argv)):
        raise JobRefused("a job's argv is at least one word, of characters that can be encoded, without NUL")
    for name in Limits.__slots__:
        asked, most = getattr(job.limits, name), getattr(ceiling, name)
        if not 0 < asked <= most:
            raise JobRefused(f"a job asks for {name} = {asked:g}; this sandbox gives above 0, up to {most:g}")
    if len(job.stdin) > MAX_STDIN_BYTES:
        raise JobRefused(f"a job's stdin has {len(job.stdin):,} bytes; this sandbox takes {MAX_STDIN_BYTES:,}")
    check_files(job.files, job.limits.files_bytes)


def check_files(files: Mapping[str, bytes], most_bytes: int, most_entries: int = MAX_ENTRIES) -> None:
    """Raises `JobRefused` for files that cannot stand in one folder together."""
    if sum(map(len, files.values())) > most_bytes:
        raise JobRefused(f"a job's files are larger than its limit of {most_bytes:,} bytes")
    folders = {str(folder) for name in files for folder in PurePosixPath(name).parents}
    if len(files) + len(folders) > most_entries:
        raise JobRefused(f"a job's files and their folders are more than {most_entries:,}")
    for name in files:
        path = PurePosixPath(name)
        if not name or not _can_cross(name) or path.is_absolute() or ".." in path.parts or str(path) != name:
            raise JobRefused(f"a job's file is a plain path inside its folder, not {name!r:.200}")
        if len(os.fsencode(name)) > MAX_PATH_BYTES or any(len(os.fsencode(p)) > MAX_NAME_BYTES for p in path.parts):
            raise JobRefused(f"the name of a job's file is too long: {name!r:.60} ...")
        if name in folders:
            raise JobRefused(f"a job's file cannot be a folder, too: {name!r:.200}")


def _can_cross(text: str) -> bool:
    """Whether it is a word for the system: bytes that are no UTF-8 come as their surrogates, others do not exist."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False
