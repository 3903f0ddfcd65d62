import unittest

from matrix import determinant, multiply, power, solve


class Matrix(unittest.TestCase):
    def test_multiply(self):
        self.assertEqual(multiply([[1, 2]], [[3], [4]]), [[11]])

    def test_power(self):
        self.assertEqual(power([[1, 1], [0, 1]], 4), [[1, 4], [0, 1]])

    def test_determinant(self):
        self.assertEqual(determinant([[2, 0], [0, 3]]), 6)

    def test_solve(self):
        self.assertEqual(solve([[2, 0], [0, 4]], [2, 8]), [1, 2])
