from .reading import BadFormula, read
from .tree import names, show, simplify, value

__all__ = ["BadFormula", "names", "read", "show", "simplify", "value"]
