from .choose import choose, fits
from .number import bump, compare, parse

__all__ = ["bump", "choose", "compare", "fits", "parse"]
