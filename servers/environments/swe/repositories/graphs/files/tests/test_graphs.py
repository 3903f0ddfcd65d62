import unittest

from graphs import distance, parts, reachable


class Graphs(unittest.TestCase):
    def test_distance(self):
        self.assertEqual(distance({"a": {"b": 2}, "b": {"c": 3}}, "a", "c"), 5)

    def test_reachable(self):
        self.assertEqual(reachable({"a": {"b": 2}}, "a"), ["a", "b"])

    def test_parts(self):
        self.assertEqual(parts({"a": {"b": 1}, "c": {}}), [["a", "b"], ["c"]])
