from .query import read_query, write_query
from .router import NoRoute, Router

__all__ = ["NoRoute", "Router", "read_query", "write_query"]
