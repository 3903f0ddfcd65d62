"""Shortest ways by Dijkstra's algorithm."""

import heapq


def way(roads, start, goal):
    """(distance, places) of a shortest way, or None. Of equally short ones, the one with fewer places."""
    best = {}
    heap = [(0, 0, [start])]
    while heap:
        length, steps, places = heapq.heappop(heap)
        place = places[-1]
        if place in best:
            continue
        best[place] = length
        if place == goal:
            return length, places
        for neighbour, more in roads.get(place, {}).items():
            if more < 0:
                raise ValueError("a road's length is not negative")
            if neighbour not in best:
                heapq.heappush(heap, (length + more, steps + 1, [*places, neighbour]))
    return None


def distance(roads, start, goal):
    found = way(roads, start, goal)
    return None if found is None else found[0]
