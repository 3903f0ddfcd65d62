"""Lists of numbers: sums of runs, windows, orders, counts."""

from __future__ import annotations

from .catalog import ints, problem


@problem(
    draw=lambda rng, n: (ints(rng, max(1, n), -50, 50),),
    edges=[([-2, 1, -3, 4, -1, 2, 1, -5, 4],), ([-3, -1, -2],), ([5],), ([1, 2, 3],), ([3, -5, 4],)],
    wrong=[
        ("best = here = numbers[0]", "best = here = 0"),
        ("max(number, here + number)", "here + number"),
        ("max(best, here)", "here"),
    ],
)
def largest_sum(numbers: list[int]) -> int:
    """Answer the largest sum that one or more neighbouring numbers of the list have."""
    best = here = numbers[0]
    for number in numbers[1:]:
        here = max(number, here + number)
        best = max(best, here)
    return best


@problem(
    draw=lambda rng, n: (ints(rng, max(2, n), 0, 9 * n), rng.randint(0, 18 * n)),
    edges=[([2, 7, 11, 15], 9), ([3, 3], 6), ([3, 1], 6), ([1, 2, 3], 7), ([5, 5, 5], 10), ([4, 4], 4)],
    wrong=[
        ("total - number in seen", "total - number in numbers"),
        ("total - number in seen", "number in seen"),
        ("return False", "return total in numbers"),
    ],
)
def pair_with_sum(numbers: list[int], total: int) -> bool:
    """Say whether two numbers at different places of the list have the given sum."""
    seen: set[int] = set()
    for number in numbers:
        if total - number in seen:
            return True
        seen.add(number)
    return False


@problem(
    draw=lambda rng, n: (ints(rng, max(1, n), 0, max(2, n)),),
    edges=[([10, 9, 2, 5, 3, 7, 101, 18],), ([7, 7, 7],), ([1],), ([3, 2, 1],), ([1, 2, 2, 3],)],
    wrong=[
        ("bisect_left(ends, number)", "bisect_right(ends, number)"),
        ("bisect_left(ends, number)", "len(ends)"),
        ("ends[at] = number", "pass"),
    ],
)
def increasing_length(numbers: list[int]) -> int:
    """Leave numbers of the list out so that each of those that stay is larger than the one before it. Answer how many
    can stay at most."""
    from bisect import bisect_left, bisect_right  # noqa: F401

    ends: list[int] = []
    for number in numbers:
        at = bisect_left(ends, number)
        if at == len(ends):
            ends.append(number)
        else:
            ends[at] = number
    return len(ends)


@problem(
    draw=lambda rng, n: (ints(rng, max(3, n), -9, 9), rng.randint(1, 3)),
    edges=[([1, 3, -1, -3, 5, 3, 6, 7], 3), ([4], 1), ([9, 1], 2), ([1, 2, 3], 1), ([5, 4, 3, 2], 2)],
    wrong=[
        ("queue[0] <= at - width", "queue[0] < at - width"),
        ("at >= width - 1", "at >= width"),
        ("numbers[queue[-1]] <= number", "numbers[queue[-1]] >= number"),
    ],
)
def window_maxima(numbers: list[int], width: int) -> list[int]:
    """Answer the largest number of each window of so many neighbouring numbers, from the first window to the last.
    The list is at least as long as a window."""
    from collections import deque

    queue: deque[int] = deque()
    out = []
    for at, number in enumerate(numbers):
        while queue and numbers[queue[-1]] <= number:
            queue.pop()
        queue.append(at)
        if queue[0] <= at - width:
            queue.popleft()
        if at >= width - 1:
            out.append(numbers[queue[0]])
    return out


@problem(
    draw=lambda rng, n: (ints(rng, max(1, n), 0, 9), rng.randint(0, 3 * n)),
    edges=[([1, 2, 3, 4, 5], 2), ([1, 2, 3], 3), ([1], 5), ([1, 2], 0), ([1, 2, 3, 4], 7)],
    wrong=[
        ("steps %= len(numbers)", "steps %= len(numbers) + 1"),
        ("numbers[-steps:] + numbers[:-steps]", "numbers[steps:] + numbers[:steps]"),
        ("    if not steps:\n        return numbers\n", "    if not steps:\n        return numbers[::-1]\n"),
    ],
)
def rotated(numbers: list[int], steps: int) -> list[int]:
    """Move every number of the list so many places to the right; what falls off at the right end comes in again at
    the left."""
    steps %= len(numbers)
    if not steps:
        return numbers
    return numbers[-steps:] + numbers[:-steps]


@problem(
    draw=lambda rng, n: (ints(rng, n, 0, max(2, n)),),
    edges=[([100, 4, 200, 1, 3, 2],), ([1, 1, 2],), ([5],), ([3, 5, 7],), ([2, 1, 0, -1],)],
    wrong=[
        ("number - 1 not in there", "True and number not in there"),
        ("number + length in there", "number + length in numbers[:2]"),
        ("there = set(numbers)", "there = set(numbers[1:])"),
    ],
)
def longest_chain(numbers: list[int]) -> int:
    """Answer how long the longest chain of whole numbers is, each one above the one before, all of which are in the
    list, in whatever order."""
    there = set(numbers)
    best = 0
    for number in there:
        if number - 1 not in there:
            length = 1
            while number + length in there:
                length += 1
            best = max(best, length)
    return best


@problem(
    draw=lambda rng, n: (ints(rng, n, 0, 2 * n),),
    edges=[([2, 4, 1, 3, 5],), ([1, 2, 3],), ([3, 2, 1],), ([1, 1],), ([5],), ([2, 2, 1, 1],)],
    wrong=[
        ("left[i] <= right[j]", "left[i] < right[j]"),
        ("swaps += len(left) - i", "swaps += 1"),
        ("return swaps_left + swaps_right + swaps, out", "return swaps_left + swaps, out"),
    ],
    large=4_000,
)
def inversions(numbers: list[int]) -> int:
    """Answer how many pairs of places of the list hold a larger number at the earlier of the two."""

    def sort(part: list[int]) -> tuple[int, list[int]]:
        if len(part) < 2:
            return 0, part
        middle = len(part) // 2
        swaps_left, left = sort(part[:middle])
        swaps_right, right = sort(part[middle:])
        swaps, i, j, out = 0, 0, 0, []
        while i < len(left) and j < len(right):
            if left[i] <= right[j]:
                out.append(left[i])
                i += 1
            else:
                swaps += len(left) - i
                out.append(right[j])
                j += 1
        out += left[i:] + right[j:]
        return swaps_left + swaps_right + swaps, out

    return sort(numbers)[0]


@problem(
    draw=lambda rng, n: (ints(rng, max(1, n), 0, 20),),
    edges=[
        ([0, 1, 0, 2, 1, 0, 1, 3, 2, 1, 2, 1],),
        ([4, 2, 3],),
        ([3],),
        ([1, 2, 3],),
        ([5, 0, 5],),
        ([2, 0, 1, 0, 3],),
    ],
    wrong=[
        ("min(before[at], after[at])", "max(before[at], after[at])"),
        ("min(before[at], after[at])", "before[at]"),
        ("reversed(heights)", "heights"),
    ],
)
def trapped_water(heights: list[int]) -> int:
    """The numbers are the heights of walls of width 1 that stand side by side. Answer how many units of rain stay
    between them."""
    from itertools import accumulate

    before = list(accumulate(heights, max))
    after = list(accumulate(reversed(heights), max))[::-1]
    return sum(min(before[at], after[at]) - height for at, height in enumerate(heights))


@problem(
    draw=lambda rng, n: (ints(rng, max(1, n), -9, 9), rng.randint(-9, 9)),
    edges=[([1, 1, 1], 2), ([1, -1, 0], 0), ([3], 3), ([1, 2, 3], 3), ([0, 0, 0], 0), ([2], 1)],
    wrong=[
        ("seen = {0: 1}", "seen: dict[int, int] = {}"),
        ("seen.get(running, 0) + 1", "1"),
        ("running - total", "total - running"),
    ],
)
def sums_equal(numbers: list[int], total: int) -> int:
    """Answer how many runs of one or more neighbouring numbers have exactly the given sum."""
    seen = {0: 1}
    running = count = 0
    for number in numbers:
        running += number
        count += seen.get(running - total, 0)
        seen[running] = seen.get(running, 0) + 1
    return count


@problem(
    draw=lambda rng, n: (ints(rng, 2 * (n // 2) + 1, 0, 9),),
    edges=[([3, 1, 2],), ([5],), ([7, 7, 1],), ([9, 1, 5, 3, 7],), ([10, 9, 100],)],
    wrong=[
        ("sorted(numbers)", "numbers"),
        ("len(numbers) // 2", "len(numbers) // 2 - 1"),
        ("sorted(numbers)", "sorted(numbers, key=str)"),
    ],
)
def median(numbers: list[int]) -> int:
    """The list has an odd number of numbers. Answer the one in the middle once they are in order."""
    return sorted(numbers)[len(numbers) // 2]


@problem(
    draw=lambda rng, n: (ints(rng, max(1, n), 0, 100),),
    edges=[([1, 2, 3, 4],), ([5],), ([2, 2, 2],), ([0, 10],), ([1, 1, 7],)],
    wrong=[
        ("/ len(numbers)\n    return", "/ max(1, len(numbers) - 1)\n    return"),
        ("round(spread, 6)", "spread ** 0.5 if spread else 0.0"),
        ("(number - mean) ** 2", "abs(number - mean)"),
    ],
)
def variance(numbers: list[int]) -> float:
    """Answer the mean of the squared differences between the numbers and their mean. A relative error of a millionth
    is allowed."""
    mean = sum(numbers) / len(numbers)
    spread = sum((number - mean) ** 2 for number in numbers) / len(numbers)
    return round(spread, 6)


@problem(
    draw=lambda rng, n: (ints(rng, max(1, n), 0, 1) if n > 2 else [1, 0, 1],),
    edges=[([1, 0, 1, 1, 0],), ([1, 1, 1],), ([0],), ([0, 0, 1],), ([1, 1, 0, 1],), ([1, 0, 0, 1, 1, 1],)],
    wrong=[
        ("zeros > 1", "zeros > 2"),
        ("zeros > 1", "zeros > 0"),
        ("best = max(best, at - start + 1)", "best = at - start + 1"),
    ],
)
def longest_ones(numbers: list[int]) -> int:
    """The list has only zeros and ones. One zero may be turned into a one. Answer how many ones can then stand side
    by side."""
    best = start = zeros = 0
    for at, number in enumerate(numbers):
        zeros += number == 0
        while zeros > 1:
            zeros -= numbers[start] == 0
            start += 1
        best = max(best, at - start + 1)
    return best
