from .money import parse, show
from .split import settle, split

__all__ = ["parse", "settle", "show", "split"]
