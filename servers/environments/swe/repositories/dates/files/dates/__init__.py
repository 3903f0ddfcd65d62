from .calendar import days_in_month, is_leap, next_day, weekday
from .working import add_working_days, monthly, working_days

__all__ = ["add_working_days", "days_in_month", "is_leap", "monthly", "next_day", "weekday", "working_days"]
