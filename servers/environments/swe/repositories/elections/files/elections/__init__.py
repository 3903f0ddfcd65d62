from .ballots import borda, pairwise_winner, runoff
from .seats import highest_averages, largest_remainders

__all__ = ["borda", "highest_averages", "largest_remainders", "pairwise_winner", "runoff"]
