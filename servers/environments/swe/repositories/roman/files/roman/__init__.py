from .bases import from_base, to_base
from .numerals import from_roman, to_roman
from .words import words

__all__ = ["from_base", "from_roman", "to_base", "to_roman", "words"]
