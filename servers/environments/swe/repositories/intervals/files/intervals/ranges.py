"""Closed ranges of whole numbers: (2, 5) holds 2, 3, 4 and 5."""


def merge(ranges):
    """Sorted ranges that neither overlap nor touch: (1, 2) and (3, 4) become (1, 4)."""
    merged = []
    for start, end in sorted(ranges):
        if start > end:
            raise ValueError(f"a range ends before it starts: {start}-{end}")
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def subtract(ranges, taken):
    """What is left of `ranges` without the numbers in `taken`."""
    left = merge(ranges)
    for start, end in merge(taken):
        rest = []
        for low, high in left:
            if end < low or start > high:
                rest.append((low, high))
                continue
            if low < start:
                rest.append((low, start - 1))
            if high > end:
                rest.append((end + 1, high))
        left = rest
    return left


def gaps(ranges, low, high):
    """The ranges between low and high that are not covered."""
    return subtract([(low, high)], ranges)


def total(ranges):
    """How many numbers the ranges hold together; a number in two ranges counts once."""
    return sum(end - start + 1 for start, end in merge(ranges))


def covers(ranges, number):
    return any(start <= number <= end for start, end in ranges)
