from .order import Loop, order, waves
from .queue import Queue

__all__ = ["Loop", "Queue", "order", "waves"]
