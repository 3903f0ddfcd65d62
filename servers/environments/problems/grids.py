"""Tables of numbers: paths, areas, spirals."""

from __future__ import annotations

from .catalog import grid, problem, side


@problem(
    draw=lambda rng, n: (grid(rng, side(n), side(n) + 1, 0, 9),),
    edges=[([[1, 3, 1], [1, 5, 1], [4, 2, 1]],), ([[5]],), ([[1, 2, 3]],), ([[1], [2]],), ([[1, 9], [1, 1]],)],
    wrong=[
        ("min(row[-1], above[column])", "row[-1]"),
        ("min(row[-1], above[column])", "above[column]"),
        ("min(row[-1], above[column])", "max(row[-1], above[column])"),
    ],
)
def cheapest_path(costs: list[list[int]]) -> int:
    """Go from the upper left cell of the table to the lower right one, each step to the right or down. Answer the
    smallest sum of all cells on such a way, both ends included."""
    above: list[int] = []
    for line in costs:
        row: list[int] = []
        for column, cost in enumerate(line):
            if not above:
                row.append(cost + (row[-1] if row else 0))
            else:
                row.append(cost + (min(row[-1], above[column]) if row else above[column]))
        above = row
    return above[-1]


@problem(
    draw=lambda rng, n: (grid(rng, side(n), side(n), 0, 1),),
    edges=[
        ([[1, 1, 0], [0, 0, 0], [1, 0, 1]],),
        ([[0]],),
        ([[1, 0], [0, 1]],),
        ([[1, 1], [1, 1]],),
        ([[1, 0, 1], [1, 1, 1]],),
    ],
    wrong=[
        ("((1, 0), (-1, 0), (0, 1), (0, -1))", "((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1))"),
        ("((1, 0), (-1, 0), (0, 1), (0, -1))", "((1, 0), (0, 1))"),
        ("if cell and (i, j) not in seen", "if cell"),
    ],
    large=3_000,
)
def islands(cells: list[list[int]]) -> int:
    """Cells of 1 are land, cells of 0 water. Answer how many islands there are: land that hangs together up, down,
    left or right, not across corners."""
    seen: set[tuple[int, int]] = set()
    count = 0
    for i, line in enumerate(cells):
        for j, cell in enumerate(line):
            if cell and (i, j) not in seen:
                todo = [(i, j)]
                seen.add((i, j))
                count += 1
                while todo:
                    x, y = todo.pop()
                    for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                        a, b = x + dx, y + dy
                        if 0 <= a < len(cells) and 0 <= b < len(line) and cells[a][b] and (a, b) not in seen:
                            seen.add((a, b))
                            todo.append((a, b))
    return count


@problem(
    draw=lambda rng, n: (grid(rng, side(n), side(n) + 2, 0, 9),),
    edges=[
        ([[1, 2, 3], [4, 5, 6], [7, 8, 9]],),
        ([[1]],),
        ([[1, 2], [3, 4], [5, 6]],),
        ([[1, 2, 3, 4]],),
        ([[1], [2]],),
    ],
    wrong=[("[::-1]\n    return out", "\n    return out"), ("rest[0]", "rest[0][:-1]"), ("rest[1:]", "rest[2:]")],
    large=1_500,
)
def spiral(cells: list[list[int]]) -> list[int]:
    """Read the table in a spiral: along the upper edge to the right, down the right edge, along the lower edge to the
    left, up the left edge, and so on inwards."""
    out: list[int] = []
    rest = [tuple(line) for line in cells]
    while rest:
        out += rest[0]
        rest = rest[1:]
        rest = list(zip(*rest, strict=True))[::-1]
    return out


@problem(
    draw=lambda rng, n: (grid(rng, side(n), side(n) + 1, 0, 9),),
    edges=[([[1, 2, 3], [4, 5, 6]],), ([[7]],), ([[1, 2]],), ([[1], [2], [3]],), ([[1, 2], [3, 4]],)],
    wrong=[
        ("cells[::-1]", "cells"),
        ("zip(*cells[::-1], strict=True)", "list(zip(*cells))[::-1]"),
        ("zip(*cells[::-1], strict=True)", "[line[::-1] for line in cells]"),
    ],
)
def turned(cells: list[list[int]]) -> list[list[int]]:
    """Turn the table clockwise by a quarter: its left column, from the bottom up, becomes the first row."""
    return [list(line) for line in zip(*cells[::-1], strict=True)]


@problem(
    draw=lambda rng, n: (grid(rng, side(n), side(n), 0, 1),),
    edges=[
        ([[1, 0, 1, 1], [1, 1, 1, 1], [0, 1, 1, 1]],),
        ([[0]],),
        ([[1]],),
        ([[1, 1], [1, 0]],),
        ([[1, 1, 1], [1, 1, 1], [1, 1, 1]],),
    ],
    wrong=[
        ("min(above[j], above[j + 1], row[j]) + 1", "min(above[j + 1], row[j]) + 1"),
        ("min(above[j], above[j + 1], row[j]) + 1", "max(above[j], above[j + 1], row[j]) + 1"),
        ("return best * best", "return best"),
    ],
)
def largest_square(cells: list[list[int]]) -> int:
    """Answer how many cells the largest square has that consists of ones alone."""
    best = 0
    above = [0] * (len(cells[0]) + 1)
    for line in cells:
        row = [0]
        for j, cell in enumerate(line):
            row.append(min(above[j], above[j + 1], row[j]) + 1 if cell else 0)
        best = max(best, *row)
        above = row
    return best * best


@problem(
    draw=lambda rng, n: ([[int(rng.random() < 0.25) for _ in range(side(n) + 1)] for _ in range(side(n) + 1)],),
    edges=[
        ([[0, 0, 0], [1, 1, 0], [0, 0, 0]],),
        ([[0, 1], [1, 0]],),
        ([[0]],),
        ([[0, 0], [0, 0]],),
        ([[1, 0], [0, 0]],),
        ([[0, 0, 0, 0, 0], [0, 1, 1, 1, 0], [0, 1, 0, 0, 0], [0, 1, 0, 1, 1], [0, 0, 0, 0, 0]],),
    ],
    wrong=[
        ("todo.popleft()", "todo.pop()"),
        ("((1, 0), (-1, 0), (0, 1), (0, -1))", "((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1))"),
        ("return steps", "return steps + 1"),
        ("return -1", "return 0"),
    ],
    large=2_500,
)
def steps_through(cells: list[list[int]]) -> int:
    """Cells of 1 are walls. Go from the upper left cell to the lower right one, each step up, down, left or right to
    a cell that is no wall. Answer the smallest number of steps, or -1 where there is no way (or an end is a wall)."""
    from collections import deque

    last = (len(cells) - 1, len(cells[0]) - 1)
    if cells[0][0] or cells[-1][-1]:
        return -1
    todo, seen = deque([(0, 0, 0)]), {(0, 0)}
    while todo:
        x, y, steps = todo.popleft()
        if (x, y) == last:
            return steps
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            a, b = x + dx, y + dy
            if 0 <= a <= last[0] and 0 <= b <= last[1] and not cells[a][b] and (a, b) not in seen:
                seen.add((a, b))
                todo.append((a, b, steps + 1))
    return -1


@problem(
    draw=lambda rng, n: (grid(rng, side(n), side(n), 0, 1), rng.randint(1, 2)),
    edges=[
        ([[0, 1, 0], [0, 1, 0], [0, 1, 0]], 1),
        ([[1]], 1),
        ([[1, 1], [1, 0]], 1),
        ([[0, 0, 1, 0], [1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]], 2),
        ([[1, 1, 1], [1, 1, 1], [1, 1, 1]], 1),
    ],
    wrong=[
        ("count == 3 or (count == 2 and cells[i][j])", "count == 3"),
        ("count == 3 or (count == 2 and cells[i][j])", "count in (2, 3)"),
        ("- cells[i][j]", ""),
        ("max(0, j - 1)", "j"),
    ],
    large=1_000,
)
def life(cells: list[list[int]], steps: int) -> list[list[int]]:
    """Conway's game on a table with nothing around it: in each step a cell with three living neighbours (of eight)
    lives, one with two stays as it is, any other dies. Answer the table after so many steps."""
    for _ in range(steps):
        after = []
        for i in range(len(cells)):
            line = []
            for j in range(len(cells[0])):
                near = [row[max(0, j - 1) : j + 2] for row in cells[max(0, i - 1) : i + 2]]
                count = sum(map(sum, near)) - cells[i][j]
                line.append(int(count == 3 or (count == 2 and cells[i][j])))
            after.append(line)
        cells = after
    return cells


@problem(
    draw=lambda rng, n: (grid(rng, side(n), side(n), -9, 9),),
    edges=[
        ([[1, 2], [3, 4]],),
        ([[5]],),
        ([[1, 0, 2], [0, 3, 0], [4, 0, 5]],),
        ([[1, -1], [-1, 1]],),
        ([[0, 7], [1, 0]],),
    ],
    wrong=[
        ("if i == j or i + j == last", "if i == j"),
        ("if i == j or i + j == last", "if i + j == last"),
        ("last = len(cells) - 1", "last = len(cells)"),
    ],
)
def diagonal_sum(cells: list[list[int]]) -> int:
    """The table is a square. Answer the sum of all cells on its two diagonals; a cell on both counts once."""
    last = len(cells) - 1
    return sum(cell for i, line in enumerate(cells) for j, cell in enumerate(line) if i == j or i + j == last)
