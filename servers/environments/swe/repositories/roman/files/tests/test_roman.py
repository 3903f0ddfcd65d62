import unittest

from roman import from_base, from_roman, to_base, to_roman, words


class Numbers(unittest.TestCase):
    def test_roman(self):
        self.assertEqual(to_roman(2024), "MMXXIV")
        self.assertEqual(from_roman("MMXXIV"), 2024)

    def test_bases(self):
        self.assertEqual(from_base(to_base(255, 16), 16), 255)

    def test_words(self):
        self.assertEqual(words(342), "three hundred and forty-two")
