"""What a check found: the verdict, why, and what was asked and answered."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from .promises import Promise

MAX_REQUEST, MAX_ANSWER = 400, 600
#: What a terminal obeys, XML cannot hold or UTF-8 cannot carry.
_ILLEGIBLE = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Verdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    NOT_APPLICABLE = "not applicable"
    ERROR = "error"  # the probe broke: nothing is known, and that counts as failing


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer, both cut, in characters that can be shown anywhere; see `RawWire.exchange`."""

    request: str
    answer: str

    @classmethod
    def of(cls, request: str, answer: str) -> Exchange:
        return cls(legible(cut(request, MAX_REQUEST)), legible(cut(answer, MAX_ANSWER)))


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


def legible(text: str) -> str:
    """The text with a mark in the place of what would do something else than be read."""
    return _ILLEGIBLE.sub("\ufffd", text.replace("\r\n", "\n"))


def hidden(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets in it. Before it is cut, or half of one would stay."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def cut(text: str, most: int) -> str:
    """The text with its middle left out where it is longer."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} … {text[-half:]}"
