import unittest

from texts import distance, slug, unique, wrap


class Texts(unittest.TestCase):
    def test_wrap(self):
        self.assertEqual(wrap("one two three", 8), ["one two", "three"])

    def test_distance(self):
        self.assertEqual(distance("kitten", "sitting"), 3)

    def test_slug(self):
        self.assertEqual(slug("Hello, World!"), "hello-world")

    def test_unique(self):
        self.assertEqual(unique("notes", {"notes"}), "notes-2")
