"""The Gregorian calendar."""

LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_leap(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(year, month):
    if not 1 <= month <= 12:
        raise ValueError(f"no month {month}")
    return LENGTHS[month - 1] + (month == 2 and is_leap(year))


def next_day(date):
    year, month, day = date
    if day < days_in_month(year, month):
        return year, month, day + 1
    return (year, month + 1, 1) if month < 12 else (year + 1, 1, 1)


def weekday(date):
    """0 for Monday to 6 for Sunday."""
    year, month, day = date
    if month < 3:
        year, month = year - 1, month + 12
    century, rest = divmod(year, 100)
    return (day + 13 * (month + 1) // 5 + rest + rest // 4 + century // 4 + 5 * century + 5) % 7
