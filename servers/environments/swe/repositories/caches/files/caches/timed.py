"""Entries with an end. `now` is any number that grows."""


class Timed:
    def __init__(self, lifetime):
        self.lifetime = lifetime
        self._entries = {}

    def put(self, key, value, now, lifetime=None):
        """Keep a value until now + lifetime; a lifetime of 0 keeps nothing."""
        lasting = self.lifetime if lifetime is None else lifetime
        self._entries[key] = (now + lasting, value)

    def get(self, key, now):
        if key not in self._entries:
            return None
        end, value = self._entries[key]
        if now >= end:
            del self._entries[key]
            return None
        return value

    def renew(self, key, now):
        """Give an entry that is still alive its whole lifetime again; whether there was one."""
        if self.get(key, now) is None:
            return False
        self._entries[key] = (now + self.lifetime, self._entries[key][1])
        return True

    def sweep(self, now):
        """Forget what has ended; answers how many entries did."""
        ended = [key for key, (end, _) in self._entries.items() if now >= end]
        for key in ended:
            del self._entries[key]
        return len(ended)

    def __len__(self):
        return len(self._entries)
