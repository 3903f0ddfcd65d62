import unittest

from units import add, convert, pretty


class Units(unittest.TestCase):
    def test_convert(self):
        self.assertEqual(convert(3, "km", "m"), 3000)

    def test_add(self):
        self.assertEqual(add("1 m 20 cm", "cm"), 120)

    def test_pretty(self):
        self.assertEqual(pretty(90, "min"), "1 h 30 min")
