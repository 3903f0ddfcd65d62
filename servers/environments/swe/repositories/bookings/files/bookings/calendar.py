"""Rooms and their bookings of one day."""


class Clash(Exception):
    """The room is taken for a part of that time."""


class Calendar:
    def __init__(self, rooms):
        self.bookings = {room: [] for room in rooms}

    def book(self, room, start, end, who):
        """Book a room from start until just before end; raises Clash, KeyError, ValueError."""
        if start >= end:
            raise ValueError("a booking ends after it starts")
        if not self.is_free(room, start, end):
            raise Clash(f"{room} is taken")
        self.bookings[room].append((start, end, who))
        self.bookings[room].sort()

    def is_free(self, room, start, end):
        return all(end <= taken_from or start >= taken_to for taken_from, taken_to, _ in self.bookings[room])

    def cancel(self, room, start):
        """Whoever had the room from `start`; None when nobody had."""
        for booking in self.bookings[room]:
            if booking[0] == start:
                self.bookings[room].remove(booking)
                return booking[2]
        return None

    def first_free(self, room, length, earliest=0, latest=24 * 60):
        """The first minute from which the room is free for `length` minutes, or None."""
        start = earliest
        for taken_from, taken_to, _ in self.bookings[room]:
            if start + length <= taken_from:
                break
            start = max(start, taken_to)
        return start if start + length <= latest else None

    def minutes_of(self, who):
        """How long somebody has rooms, over all rooms."""
        return sum(
            end - start for booked in self.bookings.values() for start, end, name in booked if name == who
        )

    def free_rooms(self, start, end):
        return sorted(room for room in self.bookings if self.is_free(room, start, end))
