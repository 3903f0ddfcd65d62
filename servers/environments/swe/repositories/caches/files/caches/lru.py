"""At most `size` entries; the one that was not used for longest goes first."""

from collections import OrderedDict


class Lru:
    def __init__(self, size):
        if size < 1:
            raise ValueError("a cache holds at least one entry")
        self.size = size
        self.hits = self.misses = 0
        self._entries = OrderedDict()

    def get(self, key, default=None):
        if key not in self._entries:
            self.misses += 1
            return default
        self.hits += 1
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key, value):
        """Store a value; answers the key that was forgotten for it, or None."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self.size:
            return self._entries.popitem(last=False)[0]
        return None

    def peek(self, key):
        """The value without counting as a use."""
        return self._entries.get(key)

    def keys(self):
        """From the least to the most recently used."""
        return list(self._entries)
