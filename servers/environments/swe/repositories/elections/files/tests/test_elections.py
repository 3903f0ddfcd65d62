import unittest

from elections import borda, highest_averages, largest_remainders, pairwise_winner, runoff

BALLOTS = [["a", "b"], ["a", "b"], ["b", "a"]]


class Elections(unittest.TestCase):
    def test_seats(self):
        self.assertEqual(highest_averages({"x": 60, "y": 40}, 5), {"x": 3, "y": 2})
        self.assertEqual(largest_remainders({"x": 60, "y": 40}, 5), {"x": 3, "y": 2})

    def test_winners(self):
        self.assertEqual(runoff(BALLOTS)[0], "a")
        self.assertEqual(pairwise_winner(BALLOTS), "a")
        self.assertEqual(borda(BALLOTS), {"a": 2, "b": 1})
