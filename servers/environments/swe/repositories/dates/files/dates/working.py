"""Days on which people work: Monday to Friday, without the holidays that are given."""

from .calendar import days_in_month, next_day, weekday


def works(date, holidays=()):
    return weekday(date) < 5 and date not in holidays


def working_days(first, last, holidays=()):
    """How many working days lie from first to last, both included; 0 when last is earlier."""
    count = 0
    while first <= last:
        count += works(first, holidays)
        first = next_day(first)
    return count


def add_working_days(date, count, holidays=()):
    """The working day that comes `count` working days after a date."""
    if count < 1:
        raise ValueError("count is at least 1")
    while count:
        date = next_day(date)
        count -= works(date, holidays)
    return date


def monthly(first, count):
    """`count` dates a month apart. A day that a month does not have becomes the month's last day."""
    year, month, day = first
    dates = []
    for _ in range(count):
        dates.append((year, month, min(day, days_in_month(year, month))))
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
    return dates
