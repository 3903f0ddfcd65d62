import unittest

from priorities import Queue, order, waves


class Priorities(unittest.TestCase):
    def test_urgent_first(self):
        queue = Queue()
        queue.put("later", 1)
        queue.put("now", 5)
        self.assertEqual([queue.take(), queue.take()], ["now", "later"])

    def test_order(self):
        self.assertEqual(order({"b": ["a"], "a": []}), ["a", "b"])

    def test_waves(self):
        self.assertEqual(waves({"b": ["a"]}), [["a"], ["b"]])
