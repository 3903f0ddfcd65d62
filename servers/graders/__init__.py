"""Graders: functions that score what a policy answered, chosen by name in a row's `verifier` field.

`registry` holds their names, `routing` reads a row's `verifier` and runs what it names.
"""

from .registry import Grader, grader
from .routing import Plan, Router

__all__ = ["Grader", "Plan", "Router", "grader"]
