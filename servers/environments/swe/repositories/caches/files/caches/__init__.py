from .lru import Lru
from .timed import Timed

__all__ = ["Lru", "Timed"]
