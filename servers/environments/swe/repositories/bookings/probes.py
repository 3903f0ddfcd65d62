from bookings import Calendar, read_time, show_time


def _calendar():
    calendar = Calendar(["red", "blue", "attic"])
    calendar.book("red", 540, 600, "ines")
    calendar.book("red", 660, 720, "otto")
    calendar.book("blue", 480, 700, "ines")
    return calendar


def probe_one_after_another():
    calendar = _calendar()
    calendar.book("red", 600, 660, "ada")
    return calendar.bookings["red"]


def probe_clashes():
    tries = [(500, 541), (599, 650), (550, 560), (500, 700), (650, 661), (719, 800)]
    said = []
    for start, end in tries:
        try:
            _calendar().book("red", start, end, "ada")
            said.append("booked")
        except Exception as error:
            said.append(type(error).__name__)
    return said


def probe_an_empty_booking():
    return _calendar().book("attic", 600, 600, "ada")


def probe_an_unknown_room():
    return _calendar().book("cellar", 1, 2, "ada")


def probe_cancel():
    calendar = _calendar()
    said = [calendar.cancel("red", 660), calendar.cancel("red", 660), calendar.cancel("blue", 481)]
    return said + [calendar.bookings["red"], calendar.bookings["blue"]]


def probe_first_free():
    calendar = _calendar()
    asked = [(60, 0), (60, 540), (61, 540), (60, 610), (30, 590), (720, 0), (721, 0), (541, 0), (1, 1439), (2, 1439)]
    return [calendar.first_free("red", length, earliest) for length, earliest in asked]


def probe_first_free_before_closing():
    return [_calendar().first_free("red", 60, 700, latest) for latest in (779, 780, 781)]


def probe_minutes():
    calendar = _calendar()
    return [calendar.minutes_of(who) for who in ("ines", "otto", "ada")]


def probe_free_rooms():
    calendar = _calendar()
    return [calendar.free_rooms(600, 660), calendar.free_rooms(700, 720), calendar.free_rooms(0, 480)]


def probe_times():
    return [read_time(text) for text in ("0:00", "9:05", " 23:59 ", "24:00", "7")]


def probe_a_late_time():
    return read_time("24:01")


def probe_many_minutes():
    return read_time("9:60")


def probe_shown():
    return [show_time(minute) for minute in (0, 65, 1439)]
