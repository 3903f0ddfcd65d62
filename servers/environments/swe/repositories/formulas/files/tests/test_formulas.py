import unittest

from formulas import read, show, simplify, value


class Formulas(unittest.TestCase):
    def test_value(self):
        self.assertEqual(value(read("2 * (x + 3)"), x=4), 14)

    def test_multiplication_binds_more(self):
        self.assertEqual(value(read("1 + 2 * 3")), 7)

    def test_simplify(self):
        self.assertEqual(simplify(read("x * 1 + 0")), "x")

    def test_show(self):
        self.assertEqual(show(read("(a + b) * c")), "(a + b) * c")
