"""Boxes with their corners: left and top belong to a box, right and bottom do not."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Box:
    left: int
    top: int
    right: int
    bottom: int

    def is_empty(self):
        return self.right <= self.left or self.bottom <= self.top

    def area(self):
        return 0 if self.is_empty() else (self.right - self.left) * (self.bottom - self.top)

    def contains(self, x, y):
        return self.left <= x < self.right and self.top <= y < self.bottom

    def common(self, other):
        """The box that both share; it may be empty."""
        return Box(
            max(self.left, other.left), max(self.top, other.top),
            min(self.right, other.right), min(self.bottom, other.bottom),
        )

    def around(self, other):
        """The smallest box that holds both; an empty one adds nothing."""
        if self.is_empty():
            return other
        if other.is_empty():
            return self
        return Box(
            min(self.left, other.left), min(self.top, other.top),
            max(self.right, other.right), max(self.bottom, other.bottom),
        )

    def moved(self, dx, dy):
        return Box(self.left + dx, self.top + dy, self.right + dx, self.bottom + dy)
