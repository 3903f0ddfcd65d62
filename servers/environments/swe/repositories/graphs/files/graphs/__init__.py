from .parts import both_ways, parts, reachable
from .ways import distance, way

__all__ = ["both_ways", "distance", "parts", "reachable", "way"]
