"""Jobs by urgency; equally urgent ones in the order they came."""

import heapq


class Queue:
    def __init__(self):
        self._heap = []
        self._count = 0
        self._dropped = set()

    def put(self, name, urgency=0):
        """Add a job; a larger urgency comes out earlier."""
        heapq.heappush(self._heap, (-urgency, self._count, name))
        self._count += 1
        return self._count - 1

    def drop(self, number):
        """Take back a job by the number that `put` returned."""
        self._dropped.add(number)

    def take(self):
        """The next job; raises IndexError when there is none."""
        while True:
            _, number, name = heapq.heappop(self._heap)
            if number not in self._dropped:
                return name
            self._dropped.discard(number)

    def __len__(self):
        return sum(number not in self._dropped for _, number, _ in self._heap)
