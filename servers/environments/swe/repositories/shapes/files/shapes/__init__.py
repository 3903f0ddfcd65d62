from .box import Box
from .polygon import area2, contains, hull, is_convex

__all__ = ["Box", "area2", "contains", "hull", "is_convex"]
