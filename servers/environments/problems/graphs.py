"""Graphs: ways, parts, orders, trees. Nodes are the numbers from 0 on; an edge is a row of its two nodes."""

from __future__ import annotations

from .catalog import grid, ints, pairs, problem


@problem(
    draw=lambda rng, n: (n + 2, pairs(rng, n, n + 2)),
    edges=[
        (5, [[0, 1], [1, 2], [3, 4]]),
        (3, [[0, 1]]),
        (2, [[0, 1]]),
        (4, [[0, 1], [1, 2], [0, 2]]),
        (4, [[0, 1], [2, 3], [1, 3], [0, 2]]),
    ],
    wrong=[
        ("parts = nodes", "parts = 2 * len(links)"),
        ("if a != b:", "if True:"),
        ("a, b = root(a), root(b)", "a, b = over[a], over[b]"),
    ],
)
def parts_of(nodes: int, links: list[list[int]]) -> int:
    """A graph has so many nodes and these links, which go both ways. Answer in how many parts that hang together it
    falls; a node without a link is one."""
    over = list(range(nodes))

    def root(node: int) -> int:
        while over[node] != node:
            over[node] = over[over[node]]
            node = over[node]
        return node

    parts = nodes
    for a, b in links:
        a, b = root(a), root(b)
        if a != b:
            over[a] = b
            parts -= 1
    return parts


@problem(
    draw=lambda rng, n: (n + 2, pairs(rng, 2 * n, n + 2), 0, n + 1),
    edges=[
        (5, [[0, 1], [1, 2], [2, 3], [0, 4], [4, 3]], 0, 3),
        (3, [[0, 1]], 0, 2),
        (2, [[0, 1]], 1, 1),
        (4, [[3, 2], [2, 1], [1, 0]], 0, 3),
        (6, [[0, 1], [1, 2], [2, 5], [0, 3], [3, 4], [4, 5], [1, 5]], 0, 5),
    ],
    wrong=[
        ("        near[b].append(a)\n", ""),
        ("distance.get(end, -1)", "distance.get(end, 0)"),
        ("distance = {start: 0}", "distance = {start: 1}"),
        ("todo.popleft()", "todo.pop()"),
    ],
    large=6_000,
)
def hops(nodes: int, links: list[list[int]], start: int, end: int) -> int:
    """A graph has so many nodes and these links, which go both ways. Answer the smallest number of links on a way
    from start to end, or -1 where there is none."""
    from collections import deque

    near: list[list[int]] = [[] for _ in range(nodes)]
    for a, b in links:
        near[a].append(b)
        near[b].append(a)
    distance = {start: 0}
    todo = deque([start])
    while todo:
        node = todo.popleft()
        for other in near[node]:
            if other not in distance:
                distance[other] = distance[node] + 1
                todo.append(other)
    return distance.get(end, -1)


@problem(
    draw=lambda rng, n: (n + 2, [[*pair, rng.randint(1, 9)] for pair in pairs(rng, 2 * n, n + 2)]),
    edges=[
        (4, [[0, 1, 1], [1, 2, 2], [0, 2, 9], [2, 3, 1]]),
        (3, [[0, 1, 5]]),
        (2, [[0, 1, 7]]),
        (4, [[0, 1, 1], [1, 3, 1], [0, 2, 1], [2, 3, 5], [0, 3, 4]]),
        (3, [[1, 0, 2], [2, 1, 3]]),
    ],
    wrong=[
        ("cost + weight", "weight"),
        ("        near[b].append((a, weight))\n", ""),
        ("return -1", "return 0"),
        ("cost + weight", "cost + 1"),
    ],
    large=4_000,
)
def cheapest_way(nodes: int, roads: list[list[int]]) -> int:
    """There are so many towns and these roads between them: a row is two towns and the cost of the road, which goes
    both ways. Answer the smallest cost from town 0 to the town with the highest number, or -1 where there is no
    way."""
    from heapq import heappop, heappush

    near: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
    for a, b, weight in roads:
        near[a].append((b, weight))
        near[b].append((a, weight))
    heap, done = [(0, 0)], set()
    while heap:
        cost, node = heappop(heap)
        if node == nodes - 1:
            return cost
        if node not in done:
            done.add(node)
            for other, weight in near[node]:
                heappush(heap, (cost + weight, other))
    return -1


@problem(
    draw=lambda rng, n: (n + 2, [pair[:: rng.choice((1, 1, 1, -1))] for pair in pairs(rng, n, n + 2)]),
    edges=[
        (4, [[0, 1], [1, 2], [2, 3]]),
        (2, [[0, 1], [1, 0]]),
        (3, [[0, 1], [0, 2], [1, 2]]),
        (3, [[0, 1], [1, 2], [2, 1]]),
        (5, [[4, 3], [3, 2], [2, 1]]),
    ],
    wrong=[
        ("return done == courses", "return done > 0"),
        ("return done == courses", "return True"),
        ("missing[b] += 1", "missing[b] = 1"),
        ("if not missing[b]", "if missing[b] <= 1"),
    ],
)
def can_finish(courses: int, needs: list[list[int]]) -> bool:
    """A row [a, b] says that course a must be done before course b. Say whether all courses can be done, one after
    another."""
    missing = [0] * courses
    opens: list[list[int]] = [[] for _ in range(courses)]
    for a, b in needs:
        missing[b] += 1
        opens[a].append(b)
    todo = [course for course in range(courses) if not missing[course]]
    done = 0
    while todo:
        done += 1
        for b in opens[todo.pop()]:
            missing[b] -= 1
            if not missing[b]:
                todo.append(b)
    return done == courses


@problem(
    draw=lambda rng, n: (n + 2, pairs(rng, max(1, n // 2), n + 2)),
    edges=[
        (4, [[0, 1], [1, 2], [2, 3], [0, 3]]),
        (3, [[0, 1], [1, 2], [0, 2]]),
        (2, [[0, 1]]),
        (5, [[2, 3], [3, 4], [2, 4]]),
        (5, [[0, 1], [1, 2], [2, 3], [3, 4], [0, 4]]),
    ],
    wrong=[
        ("for start in range(nodes)", "for start in range(1)"),
        ("side[other] == side[node]", "other == node"),
        ("side[other] = 1 - side[node]", "side[other] = 1 - side[node] if node else 0"),
    ],
)
def two_teams(nodes: int, rivals: list[list[int]]) -> bool:
    """Rows are pairs of rivals among so many players. Say whether the players can be put in two teams so that no two
    rivals are in one."""
    near: list[list[int]] = [[] for _ in range(nodes)]
    for a, b in rivals:
        near[a].append(b)
        near[b].append(a)
    side: dict[int, int] = {}
    for start in range(nodes):
        if start in side:
            continue
        side[start] = 0
        todo = [start]
        while todo:
            node = todo.pop()
            for other in near[node]:
                if other not in side:
                    side[other] = 1 - side[node]
                    todo.append(other)
                elif side[other] == side[node]:
                    return False
    return True


@problem(
    draw=lambda rng, n: (n + 2, [[at, at + 1, rng.randint(1, 20)] for at in range(n + 1)] + grid(rng, n, 3, 0, n + 1)),
    edges=[
        (4, [[0, 1, 1], [1, 2, 2], [2, 3, 3], [0, 3, 10], [0, 2, 1]]),
        (2, [[0, 1, 5]]),
        (3, [[0, 1, 1], [1, 2, 1], [0, 2, 1]]),
        (3, [[0, 1, 9], [0, 1, 2], [1, 2, 3]]),
        (4, [[0, 1, 1], [2, 3, 1], [0, 1, 3], [1, 2, 4], [0, 3, 5]]),
    ],
    wrong=[
        ("key=lambda link: link[2]", "key=lambda link: link[0]"),
        ("if a != b:", "if True:"),
        ("total += cost", "total = max(total, cost)"),
    ],
    large=6_000,
)
def cheapest_net(nodes: int, links: list[list[int]]) -> int:
    """A row is two nodes and what a cable between them costs. All nodes can be connected. Answer the smallest cost at
    which they are, directly or over others."""
    over = list(range(nodes))

    def root(node: int) -> int:
        while over[node] != node:
            over[node] = over[over[node]]
            node = over[node]
        return node

    total = 0
    for a, b, cost in sorted(links, key=lambda link: link[2]):
        a, b = root(a), root(b)
        if a != b:
            over[a] = b
            total += cost
    return total


@problem(
    draw=lambda rng, n: ([-1] + [rng.randrange(at) for at in range(1, n + 1)],),
    edges=[([-1, 0, 0, 1],), ([-1],), ([-1, 0, 1, 2, 3],), ([-1, 0, 0, 0],), ([-1, 0, 0, 2, 3, 1],)],
    wrong=[("depth[over] + 1", "depth[over]"), ("max(depth)", "depth[-1]"), ("max(depth)", "len(set(parents)) - 1")],
)
def tree_height(parents: list[int]) -> int:
    """Node i of a tree has the node parents[i] above it, which has a smaller number; the root is node 0, its entry is
    -1. Answer how many steps the deepest node is below the root."""
    depth = [0] * len(parents)
    for node, over in enumerate(parents):
        if over >= 0:
            depth[node] = depth[over] + 1
    return max(depth)


@problem(
    draw=lambda rng, n: ([-1] + [rng.randrange(at) for at in range(1, n + 1)], ints(rng, n + 1, 0, 9)),
    edges=[
        ([-1, 0, 0, 1], [5, 1, 2, 3]),
        ([-1], [4]),
        ([-1, 0, 1, 2], [1, 1, 1, 1]),
        ([-1, 0, 0, 0], [1, 2, 3, 4]),
        ([-1, 0, 1, 1], [1, 10, 1, 1]),
        ([-1, 0, 1, 2], [5, 1, 1, 10]),
    ],
    wrong=[
        ("free[over] += max(free[node], taken[node])", "free[over] += taken[node]"),
        ("taken[over] += free[node]", "taken[over] += max(free[node], taken[node])"),
        ("max(free[0], taken[0])", "taken[0]"),
    ],
)
def best_party(bosses: list[int], fun: list[int]) -> int:
    """Person i has the boss bosses[i], who has a smaller number; person 0 has none, the entry is -1. Invite people so
    that nobody comes together with their own boss. Answer the largest sum of the guests' fun."""
    taken, free = list(fun), [0] * len(fun)
    for node in range(len(bosses) - 1, 0, -1):
        over = bosses[node]
        free[over] += max(free[node], taken[node])
        taken[over] += free[node]
    return max(free[0], taken[0])


@problem(
    draw=lambda rng, n: ([rng.randrange(max(1, n)) for _ in range(max(1, n))],),
    edges=[([1, 2, 0, 3],), ([0],), ([1, 1],), ([2, 0, 1],), ([1, 2, 3, 1],), ([1, 0, 3, 2, 2],), ([0, 2, 3, 0],)],
    wrong=[
        ("at - seen[node]", "at - seen[node] + 1"),
        ("at - seen[node]", "at"),
        ("mark[node] == start", "True"),
    ],
)
def longest_cycle(following: list[int]) -> int:
    """From node i one goes on to node following[i]. Answer how many nodes the longest cycle has."""
    mark = [-1] * len(following)
    seen = [0] * len(following)
    best = 0
    for start in range(len(following)):
        node, at = start, 0
        while mark[node] < 0:
            mark[node], seen[node] = start, at
            node, at = following[node], at + 1
        if mark[node] == start:
            best = max(best, at - seen[node])
    return best
