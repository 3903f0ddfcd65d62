from .convert import UnknownUnit, convert, kind_of
from .text import add, pretty

__all__ = ["UnknownUnit", "add", "convert", "kind_of", "pretty"]
