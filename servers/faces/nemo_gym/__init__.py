"""The NeMo Gym wire."""

from .face import face

__all__ = ["face"]
