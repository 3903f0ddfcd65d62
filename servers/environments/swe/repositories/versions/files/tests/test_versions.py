import unittest

from versions import bump, choose, compare, fits


class Versions(unittest.TestCase):
    def test_compare(self):
        self.assertEqual(compare("1.2.3", "1.2.4"), -1)

    def test_bump(self):
        self.assertEqual(bump("1.2.3", "minor"), "1.3.0")

    def test_choose(self):
        self.assertEqual(choose(["1.2.0", "1.4.0", "2.0.0"], "^1.2.0"), "1.4.0")

    def test_fits(self):
        self.assertTrue(fits("1.2.9", "~1.2.3"))
