"""What an environment is called in other stacks: with a prefix, so that no package of its own name is in its way."""

from __future__ import annotations

import re

from .facts import Facts


def module(facts: Facts) -> str:
    """In small letters: verifiers looks for no others, and an image's name takes none."""
    return f"gymwire_{_word(facts).lower()}"


def distribution(facts: Facts) -> str:
    return module(facts).replace("_", "-")


def prefix(facts: Facts) -> str:
    """The environment's name as the start of a class's."""
    word = "".join(part[:1].upper() + part[1:] for part in _word(facts).split("_"))
    return f"Env{word}" if word[0].isdigit() else word


def _word(facts: Facts) -> str:
    """The name as a part of identifiers and of distributions, which end in a letter or digit: URLs take more."""
    return re.sub(r"[^A-Za-z0-9]+", "_", facts.name).strip("_") or "env"
