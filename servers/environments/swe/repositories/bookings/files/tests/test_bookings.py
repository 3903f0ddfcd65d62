import unittest

from bookings import Calendar, Clash, read_time, show_time


class Bookings(unittest.TestCase):
    def test_a_room_is_taken_once(self):
        calendar = Calendar(["red"])
        calendar.book("red", 540, 600, "ines")
        with self.assertRaises(Clash):
            calendar.book("red", 550, 610, "otto")

    def test_first_free(self):
        calendar = Calendar(["red"])
        calendar.book("red", 540, 600, "ines")
        self.assertEqual(calendar.first_free("red", 30, 540), 600)

    def test_clock(self):
        self.assertEqual(show_time(read_time("9:05")), "09:05")
