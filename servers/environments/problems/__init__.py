"""The problems of `code_tests`, a file for each field. Importing this package gathers all of them."""

from . import graphs, greedy, grids, numbers, sequences, strings
from .catalog import PROBLEMS, Problem

__all__ = ["PROBLEMS", "Problem", "graphs", "greedy", "grids", "numbers", "sequences", "strings"]
