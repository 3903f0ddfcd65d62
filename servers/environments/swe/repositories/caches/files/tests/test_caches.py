import unittest

from caches import Lru, Timed


class Caches(unittest.TestCase):
    def test_the_oldest_goes(self):
        cache = Lru(2)
        cache.put("a", 1)
        cache.put("b", 2)
        self.assertEqual(cache.put("c", 3), "a")

    def test_an_entry_ends(self):
        cache = Timed(10)
        cache.put("a", 1, now=0)
        self.assertEqual(cache.get("a", now=5), 1)
        self.assertIsNone(cache.get("a", now=11))
