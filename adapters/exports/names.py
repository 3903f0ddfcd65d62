"""What an environment is called in other stacks: with a prefix, so that no package of its own name is in its way."""

from __future__ import annotations

from .facts import Facts


def module(facts: Facts) -> str:
    return f"gymwire_{facts.name}"


def distribution(facts: Facts) -> str:
    return module(facts).replace("_", "-")


def prefix(facts: Facts) -> str:
    """The environment's name as the start of a class's."""
    return "".join(word[:1].upper() + word[1:] for word in facts.name.split("_"))
