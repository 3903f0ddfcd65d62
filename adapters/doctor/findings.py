"""What a check found: the verdict, why, and what was asked and answered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .promises import Promise

MAX_REQUEST, MAX_ANSWER = 400, 600


class Verdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    NOT_APPLICABLE = "not applicable"
    ERROR = "error"  # the probe broke: nothing is known, and that counts as failing


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer, both cut; never with a token in it."""

    request: str
    answer: str

    @classmethod
    def of(cls, request: str, answer: str) -> Exchange:
        return cls(cut(request, MAX_REQUEST), cut(answer, MAX_ANSWER))


@dataclass(frozen=True, slots=True)
class Finding:
    """One promise's verdict. `reason` is what was seen, or what is wrong, or why it cannot be tested."""

    promise: Promise
    verdict: Verdict
    reason: str
    evidence: tuple[Exchange, ...] = ()
    seconds: float = 0.0

    @property
    def is_bad(self) -> bool:
        return self.verdict in (Verdict.FAIL, Verdict.ERROR)


class Broken(Exception):
    """The promise does not hold."""

    def __init__(self, reason: str, *evidence: Exchange) -> None:
        super().__init__(reason)
        self.reason, self.evidence = reason, evidence


class NotApplicable(Exception):
    """The promise cannot be tested here, or means nothing here."""


def cut(text: str, most: int) -> str:
    """The text with its middle left out where it is longer."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} … {text[-half:]}"
