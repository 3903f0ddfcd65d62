from .ranges import covers, gaps, merge, subtract, total
from .text import parse, show

__all__ = ["covers", "gaps", "merge", "parse", "show", "subtract", "total"]
