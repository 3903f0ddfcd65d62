"""Lots of articles. What came first goes first."""

from collections import deque


class NotEnough(Exception):
    """More was asked for than there is; nothing was taken."""


class Warehouse:
    def __init__(self):
        self._lots = {}
        self.log = []

    def bring(self, article, count, price):
        """Put a lot on the shelf; price in cents for one piece."""
        if count < 1 or price < 0:
            raise ValueError("a lot has pieces, and its price is not negative")
        self._lots.setdefault(article, deque()).append([count, price])
        self.log.append(("in", article, count))

    def take(self, article, count):
        """Take pieces out; answers what they cost together when they were bought."""
        if count > self.count(article):
            raise NotEnough(f"{article}: {self.count(article)} of {count}")
        lots, cost, left = self._lots.get(article, deque()), 0, count
        while left:
            taken = min(left, lots[0][0])
            cost += taken * lots[0][1]
            lots[0][0] -= taken
            left -= taken
            if not lots[0][0]:
                lots.popleft()
        self.log.append(("out", article, count))
        return cost

    def count(self, article):
        return sum(count for count, _ in self._lots.get(article, ()))

    def value(self):
        """What everything on the shelf cost, in cents."""
        return sum(count * price for lots in self._lots.values() for count, price in lots)

    def below(self, least):
        """Articles with fewer pieces than `least` says (article -> pieces), those missing most first."""
        missing = {article: wanted - self.count(article) for article, wanted in least.items()}
        return sorted((article for article in missing if missing[article] > 0), key=lambda a: (-missing[a], a))
