import unittest

from intervals import covers, merge, parse, show, subtract


class Intervals(unittest.TestCase):
    def test_overlapping_ranges_are_merged(self):
        self.assertEqual(merge([(5, 9), (1, 6)]), [(1, 9)])

    def test_subtract_splits_a_range(self):
        self.assertEqual(subtract([(1, 10)], [(4, 6)]), [(1, 3), (7, 10)])

    def test_text_and_back(self):
        self.assertEqual(show(parse("9-12, 1-4,7")), "1-4, 7, 9-12")

    def test_covers(self):
        self.assertTrue(covers([(1, 3)], 2))
