from .algebra import identity, multiply, power, transpose
from .solve import determinant, rank, solve

__all__ = ["determinant", "identity", "multiply", "power", "rank", "solve", "transpose"]
