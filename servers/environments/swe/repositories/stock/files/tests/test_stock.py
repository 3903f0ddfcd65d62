import unittest

from stock import NotEnough, Order, Warehouse, allocate


class Stock(unittest.TestCase):
    def test_first_in_first_out(self):
        house = Warehouse()
        house.bring("bolt", 10, 5)
        house.bring("bolt", 10, 7)
        self.assertEqual(house.take("bolt", 12), 64)

    def test_not_enough(self):
        with self.assertRaises(NotEnough):
            Warehouse().take("bolt", 1)

    def test_allocate(self):
        self.assertEqual(allocate(5, [Order("a", 3, 1), Order("b", 3, 2)]), {"a": 3, "b": 2})
