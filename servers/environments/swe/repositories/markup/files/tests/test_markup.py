import unittest

from markup import inline, to_html


class Markup(unittest.TestCase):
    def test_strong(self):
        self.assertEqual(inline("a *b* c"), "a <strong>b</strong> c")

    def test_paragraph(self):
        self.assertEqual(to_html("one\ntwo"), "<p>one two</p>")

    def test_list(self):
        self.assertEqual(to_html("- a\n- b"), "<ul><li>a</li><li>b</li></ul>")
