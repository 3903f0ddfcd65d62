import unittest

from tables import read


class Tables(unittest.TestCase):
    def test_columns(self):
        self.assertEqual(read("a,b\n1,2\n3,4\n").column("b"), ["2", "4"])

    def test_quotes(self):
        self.assertEqual(read('a\n"x,y"\n').rows, [["x,y"]])

    def test_totals(self):
        self.assertEqual(read("who,sum\nbo,1\nbo,2\n").totals("who", "sum"), {"bo": 3.0})
