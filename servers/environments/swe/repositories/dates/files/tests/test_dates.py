import unittest

from dates import add_working_days, monthly, weekday, working_days


class Dates(unittest.TestCase):
    def test_weekday(self):
        self.assertEqual(weekday((2024, 5, 1)), 2)

    def test_a_week(self):
        self.assertEqual(working_days((2024, 5, 6), (2024, 5, 12)), 5)

    def test_after_the_weekend(self):
        self.assertEqual(add_working_days((2024, 5, 10), 1), (2024, 5, 13))

    def test_monthly(self):
        self.assertEqual(monthly((2024, 11, 3), 3), [(2024, 11, 3), (2024, 12, 3), (2025, 1, 3)])
