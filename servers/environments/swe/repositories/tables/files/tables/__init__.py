from .reading import read
from .table import Table

__all__ = ["Table", "read"]
