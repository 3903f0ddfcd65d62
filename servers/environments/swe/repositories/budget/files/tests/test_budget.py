import unittest

from budget import parse, settle, show, split


class Budget(unittest.TestCase):
    def test_nothing_is_lost(self):
        self.assertEqual(sum(split(1000, [1, 1, 1])), 1000)

    def test_text_and_back(self):
        self.assertEqual(show(parse("1,234.50")), "1,234.50")

    def test_settle(self):
        self.assertEqual(settle({"ada": 300, "bo": 100}), [("bo", "ada", 100)])
