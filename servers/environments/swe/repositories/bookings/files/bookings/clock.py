"""Times of a day as texts: 09:30 is minute 570."""


def read_time(text):
    hours, _, minutes = text.strip().partition(":")
    minute = int(hours) * 60 + int(minutes or 0)
    if not 0 <= minute <= 24 * 60 or int(minutes or 0) > 59:
        raise ValueError(f"not a time of day: {text}")
    return minute


def show_time(minute):
    return f"{minute // 60:02}:{minute % 60:02}"
