"""Functions that somebody has, as a module for `--from functions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gymwire.servers import Transcript

max_turns = 3


def total(faces: list[int]) -> int:
    """Add up what some dice show.

    Args:
        faces: What each shows.
    """
    return sum(_checked(faces))


def _checked(faces: list[int]) -> list[int]:
    return [min(max(face, 1), 6) for face in faces]


def verify(transcript: Transcript) -> float:
    return float(transcript.answer == "7")
