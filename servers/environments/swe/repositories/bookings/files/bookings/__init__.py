from .calendar import Calendar, Clash
from .clock import read_time, show_time

__all__ = ["Calendar", "Clash", "read_time", "show_time"]
