"""Choices: coins, meetings, rucksacks, queues."""

from __future__ import annotations

from .catalog import ints, problem


@problem(
    draw=lambda rng, n: (sorted({1, *ints(rng, 3, 2, 12)}), rng.randint(1, n)),
    edges=[([1, 5, 10], 18), ([1, 3, 4], 6), ([2], 3), ([5], 5), ([2, 5], 11), ([4, 7], 1)],
    wrong=[
        ("return best[amount] if best[amount] <= amount else -1", "return best[amount]"),
        ("min(best[sum_ - coin] for coin in coins if coin <= sum_)", "best[sum_ - max(c for c in coins if c <= sum_)]"),
        ("+ 1)", ")"),
    ],
)
def fewest_coins(coins: list[int], amount: int) -> int:
    """There are coins of these values, as many of each as one likes. Answer the smallest number of coins that make
    exactly the amount, which is at least 1, or -1 where none do."""
    best = [0]
    for sum_ in range(1, amount + 1):
        if sum_ < min(coins):
            best.append(amount + 1)
        else:
            best.append(min(best[sum_ - coin] for coin in coins if coin <= sum_) + 1)
    return best[amount] if best[amount] <= amount else -1


@problem(
    draw=lambda rng, n: (sorted({1, *ints(rng, 3, 2, 9)}), rng.randint(0, n)),
    edges=[([1, 2, 5], 5), ([2], 3), ([3, 5], 0), ([1, 2], 4), ([2, 3], 6)],
    wrong=[
        ("ways = [1]", "ways = [0]"),
        (
            "    for coin in coins:\n        for sum_ in range(coin, amount + 1):",
            "    for sum_ in range(1, amount + 1):\n        for coin in [c for c in coins if c <= sum_]:",
        ),
        ("range(coin, amount + 1)", "range(amount, coin - 1, -1)"),
    ],
)
def ways_to_pay(coins: list[int], amount: int) -> int:
    """There are coins of these values, as many of each as one likes. Answer in how many ways they make the amount;
    the order of coins does not matter. The amount 0 is made in one way, with none."""
    ways = [1] + [0] * amount
    for coin in coins:
        for sum_ in range(coin, amount + 1):
            ways[sum_] += ways[sum_ - coin]
    return ways[amount]


@problem(
    draw=lambda rng, n: ([[start := rng.randint(0, 3 * n), start + rng.randint(1, 9)] for _ in range(max(1, n))],),
    edges=[
        ([[1, 3], [2, 4], [3, 5]],),
        ([[0, 9], [1, 2], [3, 4]],),
        ([[1, 2]],),
        ([[1, 2], [1, 2]],),
        ([[5, 6], [1, 5], [6, 7]],),
    ],
    wrong=[
        ("key=lambda meeting: meeting[1]", "key=lambda meeting: meeting[0]"),
        ("start >= free", "start > free"),
        ("start >= free", "True"),
    ],
)
def most_meetings(meetings: list[list[int]]) -> int:
    """A row is the start and the end of a meeting; one may begin when another ends. Answer how many of them one
    person can attend."""
    count, free = 0, 0
    for start, end in sorted(meetings, key=lambda meeting: meeting[1]):
        if start >= free:
            count += 1
            free = end
    return count


@problem(
    draw=lambda rng, n: ([[start := rng.randint(0, 3 * n), start + rng.randint(1, 9)] for _ in range(max(1, n))],),
    edges=[
        ([[0, 30], [5, 10], [15, 20]],),
        ([[7, 10], [2, 4]],),
        ([[1, 5]],),
        ([[1, 2], [2, 3]],),
        ([[1, 4], [1, 4], [1, 4]],),
        ([[0, 2], [1, 3], [2, 4], [3, 5]],),
    ],
    wrong=[
        ("(start, 1) for", "(start, 0) for"),
        ("(end, -1)", "(end + 1, -1)"),
        ("max(most, now)", "now"),
        ("sorted(changes)", "changes"),
    ],
)
def rooms_needed(meetings: list[list[int]]) -> int:
    """A row is the start and the end of a meeting; a room is free again at the end. Answer how many rooms are needed
    so that all can take place."""
    changes = [(start, 1) for start, _ in meetings] + [(end, -1) for _, end in meetings]
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


@problem(
    draw=lambda rng, n: ([[start := rng.randint(0, 2 * n), start + rng.randint(0, 5)] for _ in range(max(1, n))],),
    edges=[
        ([[1, 3], [2, 6], [8, 10], [15, 18]],),
        ([[1, 4], [4, 5]],),
        ([[1, 9], [2, 3]],),
        ([[5, 6], [1, 2]],),
        ([[3, 3]],),
    ],
    wrong=[
        ("start <= out[-1][1]", "start < out[-1][1]"),
        ("max(out[-1][1], end)", "end"),
        ("sorted(spans)", "spans"),
    ],
)
def merged(spans: list[list[int]]) -> list[list[int]]:
    """A row is the first and the last point of a span. Join spans that overlap or touch in a point, and answer what
    is left in order."""
    out: list[list[int]] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([start, end])
    return out


@problem(
    draw=lambda rng, n: (
        ints(rng, min(60, max(1, n)), 1, 20),
        [*ints(rng, min(60, max(1, n)), 1, 50)],
        rng.randint(1, 5 * min(100, n)),
    ),
    edges=[
        ([1, 3, 4, 5], [1, 4, 5, 7], 7),
        ([2], [10], 1),
        ([2], [10], 4),
        ([1, 1, 1], [1, 2, 3], 2),
        ([5, 4, 6], [10, 40, 30], 10),
    ],
    wrong=[
        ("range(room, weight - 1, -1)", "range(weight, room + 1)"),
        ("range(room, weight - 1, -1)", "range(room, weight, -1)"),
        ("max(best[left], best[left - weight] + value)", "best[left - weight] + value"),
    ],
)
def rucksack(weights: list[int], values: list[int], room: int) -> int:
    """Thing i has a weight and a value. Answer the largest sum of values of things whose weights together are not
    above the room. Each thing is there once."""
    best = [0] * (room + 1)
    for weight, value in zip(weights, values, strict=True):
        for left in range(room, weight - 1, -1):
            best[left] = max(best[left], best[left - weight] + value)
    return best[room]


@problem(
    draw=lambda rng, n: (ints(rng, max(1, n), 1, 100),),
    edges=[([7, 1, 5, 3, 6, 4],), ([5, 4, 3],), ([1],), ([1, 2, 3],), ([3, 8, 1, 2],)],
    wrong=[
        ("low = min(low, price)", "low = price"),
        ("best = max(best, price - low)", "best = price - low"),
        ("return best", "return max(prices) - min(prices)"),
    ],
)
def best_trade(prices: list[int]) -> int:
    """The list is the price of a share day by day. Answer the largest profit of buying on one day and selling on a
    later one, or 0 where none can be made."""
    low, best = prices[0], 0
    for price in prices:
        low = min(low, price)
        best = max(best, price - low)
    return best


@problem(
    draw=lambda rng, n: (ints(rng, max(1, n), 0, 20),),
    edges=[([2, 7, 9, 3, 1],), ([5],), ([1, 2],), ([2, 1, 1, 2],), ([4, 1, 2, 7, 5, 3, 1],)],
    wrong=[
        ("max(take, skip)\n    return", "take\n    return"),
        ("skip + value", "take + value"),
        ("max(take, skip)\n    return max(take, skip)", "max(take, skip)\n    return take"),
    ],
)
def no_neighbours(values: list[int]) -> int:
    """Choose numbers of the list, no two of them side by side. Answer the largest sum that they can have."""
    take = skip = 0
    for value in values:
        take, skip = skip + value, max(take, skip)
    return max(take, skip)


@problem(
    draw=lambda rng, n: (ints(rng, max(1, n), 1, 30), rng.randint(1, 4) + n // 3),
    edges=[([3, 6, 7, 11], 8), ([5], 5), ([30, 11, 23, 4, 20], 6), ([10], 3), ([4, 4], 2)],
    wrong=[
        ("-(-pile // middle)", "pile // middle"),
        ("<= hours", "< hours"),
        ("high = middle", "high = middle - 1"),
    ],
)
def slowest_speed(piles: list[int], hours: int) -> int:
    """Each hour at most so many pieces are taken as the speed says, from one pile alone. Answer the lowest speed at
    which all piles are gone within the hours; where the hours are fewer than the piles, answer the largest pile."""
    low, high = 1, max(piles)
    while low < high:
        middle = (low + high) // 2
        if sum(-(-pile // middle) for pile in piles) <= hours:
            high = middle
        else:
            low = middle + 1
    return low


@problem(
    draw=lambda rng, n: (ints(rng, max(1, n), 0, 5),),
    edges=[([2, 3, 1, 1, 4],), ([3, 2, 1, 0, 4],), ([0],), ([1, 0, 2],), ([2, 0, 0],), ([1, 1, 1, 1],)],
    wrong=[
        ("at > reach", "at >= reach and at"),
        ("max(reach, at + jump)", "at + jump"),
        ("return True", "return reach > 0"),
    ],
)
def can_jump(jumps: list[int]) -> bool:
    """One stands on the first number of the list. A number says how many places one may jump to the right from it at
    most. Say whether the last place can be reached."""
    reach = 0
    for at, jump in enumerate(jumps):
        if at > reach:
            return False
        reach = max(reach, at + jump)
    return True


@problem(
    draw=lambda rng, n: ([rng.choice(("push 3", "push 7", "pop", "double", "add")) for _ in range(n)],),
    edges=[
        (["push 3", "push 7", "add"],),
        (["pop"],),
        (["push 3", "double", "double"],),
        (["push 7", "push 3", "pop"],),
        (["push 5", "add"],),
        (["double", "push 2"],),
    ],
    wrong=[
        ("stack[-1] if stack else 0", "sum(stack)"),
        ("len(stack) > 1", "stack"),
        ("stack.append(stack[-1])", "stack[-1] *= 2"),
    ],
)
def stack_machine(orders: list[str]) -> int:
    """A stack is empty at first. push N puts N on it, pop takes the upper number away, double puts the upper number
    on it once more, add replaces the two upper numbers by their sum. An order that finds too few numbers does
    nothing. Answer the upper number at the end, or 0 where the stack is empty."""
    stack: list[int] = []
    for order in orders:
        if order.startswith("push "):
            stack.append(int(order[5:]))
        elif order == "pop" and stack:
            stack.pop()
        elif order == "double" and stack:
            stack.append(stack[-1])
        elif order == "add" and len(stack) > 1:
            stack.append(stack.pop() + stack.pop())
    return stack[-1] if stack else 0
