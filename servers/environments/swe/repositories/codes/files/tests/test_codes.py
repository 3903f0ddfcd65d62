import unittest

from codes import decode, encode, expand, luhn, pack, shorten, unpack


class Codes(unittest.TestCase):
    def test_runs(self):
        self.assertEqual(shorten("aaab"), "3ab")
        self.assertEqual(expand("3ab"), "aaab")

    def test_luhn(self):
        self.assertTrue(luhn("79927398713"))

    def test_cipher(self):
        self.assertEqual(decode(encode("Hello", "key"), "key"), "Hello")

    def test_bits(self):
        self.assertEqual(unpack(pack([1, 2], [4, 4]), [4, 4]), [1, 2])
