from dates import add_working_days, days_in_month, is_leap, monthly, next_day, weekday, working_days


def probe_leap_years():
    return [is_leap(year) for year in (1900, 2000, 2023, 2024, 2100, 2400)]


def probe_months():
    return [days_in_month(2023, month) for month in range(1, 13)] + [days_in_month(2024, 2), days_in_month(1900, 2)]


def probe_no_such_month():
    return days_in_month(2024, 13)


def probe_next_day():
    return [next_day(date) for date in ((2024, 2, 28), (2023, 2, 28), (2023, 12, 31), (2023, 4, 30), (2023, 4, 29))]


def probe_weekdays():
    dates = [(1970, 1, 1), (2000, 2, 29), (2024, 1, 31), (2024, 3, 1), (1899, 12, 31), (2100, 2, 28), (2023, 2, 5)]
    return [weekday(date) for date in dates]


def probe_a_whole_year_of_weekdays():
    date, days = (2023, 12, 25), []
    while date < (2025, 1, 7):
        days.append(weekday(date))
        date = next_day(date)
    return days


def probe_working_days():
    asked = [((2024, 5, 6), (2024, 5, 6)), ((2024, 5, 11), (2024, 5, 12)), ((2024, 12, 23), (2025, 1, 3))]
    return [working_days(*days) for days in asked] + [working_days((2024, 5, 7), (2024, 5, 6))]


def probe_holidays():
    holidays = {(2024, 12, 25), (2024, 12, 26), (2025, 1, 1), (2024, 12, 28)}
    return [
        working_days((2024, 12, 23), (2025, 1, 3), holidays),
        add_working_days((2024, 12, 24), 1, holidays),
        add_working_days((2024, 12, 24), 4, holidays),
    ]


def probe_add_working_days():
    return [add_working_days((2024, 5, 10), count) for count in (1, 4, 5, 6, 11)] + [add_working_days((2024, 5, 11), 1)]


def probe_add_nothing():
    return add_working_days((2024, 5, 10), 0)


def probe_monthly():
    return [monthly((2024, 1, 31), 5), monthly((2023, 12, 30), 3), monthly((2024, 2, 29), 13)[-1], monthly((2024, 6, 1), 0)]
