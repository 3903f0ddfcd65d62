import unittest

from shapes import Box, area2, contains, hull


class Shapes(unittest.TestCase):
    def test_common(self):
        self.assertEqual(Box(0, 0, 4, 4).common(Box(2, 1, 9, 3)), Box(2, 1, 4, 3))

    def test_area(self):
        self.assertEqual(area2([(0, 0), (4, 0), (4, 3)]), 12)

    def test_contains(self):
        self.assertTrue(contains([(0, 0), (4, 0), (4, 4), (0, 4)], (1, 2)))

    def test_hull(self):
        self.assertEqual(hull([(0, 0), (2, 0), (1, 1), (0, 2), (2, 2)]), [(0, 0), (2, 0), (2, 2), (0, 2)])
