"""What hangs together."""

from collections import deque


def both_ways(roads):
    """The map with every road usable in both directions; of two lengths the shorter counts."""
    full = {place: dict(neighbours) for place, neighbours in roads.items()}
    for place, neighbours in roads.items():
        for neighbour, length in neighbours.items():
            back = full.setdefault(neighbour, {})
            back[place] = min(length, back.get(place, length))
            full[place][neighbour] = min(full[place][neighbour], back[place])
    return full


def reachable(roads, start, steps=None):
    """The places that can be reached, in at most `steps` roads when that is given, nearest first."""
    seen = {start: 0}
    waiting = deque([start])
    while waiting:
        place = waiting.popleft()
        if steps is not None and seen[place] == steps:
            continue
        for neighbour in sorted(roads.get(place, {})):
            if neighbour not in seen:
                seen[neighbour] = seen[place] + 1
                waiting.append(neighbour)
    return list(seen)


def parts(roads):
    """Groups of places that are connected by roads in either direction, largest first."""
    full = both_ways(roads)
    left = set(full)
    groups = []
    while left:
        group = sorted(reachable(full, min(left)))
        groups.append(group)
        left -= set(group)
    return sorted(groups, key=lambda group: (-len(group), group))
