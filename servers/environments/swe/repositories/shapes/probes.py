from dataclasses import astuple

from shapes import Box, area2, contains, hull, is_convex

STAR = [(0, 0), (4, 0), (4, 4), (2, 1), (0, 4)]


def probe_box():
    box = Box(1, 2, 5, 4)
    return [box.area(), Box(3, 3, 1, 9).area(), Box(1, 1, 1, 5).is_empty(), box.is_empty(), Box(5, 5, 2, 2).area()]


def probe_edges_of_a_box():
    return [Box(1, 2, 5, 4).contains(x, y) for x, y in ((1, 2), (5, 3), (4, 3), (1, 4), (0, 2), (4, 1))]


def probe_common():
    box = Box(0, 0, 4, 4)
    others = [Box(2, 1, 9, 3), Box(4, 0, 6, 4), Box(7, 7, 9, 9), box, Box(-3, 2, 1, 8)]
    return [[*astuple(box.common(other)), box.common(other).is_empty()] for other in others]


def probe_around():
    box = Box(0, 0, 4, 4)
    others = [Box(2, 1, 9, 3), Box(-2, -3, -1, -1), Box(50, 50, 50, 60)]
    return [astuple(box.around(other)) for other in others] + [astuple(Box(9, 9, 9, 9).around(box))]


def probe_moved():
    return astuple(Box(0, 1, 2, 3).moved(-1, 10))


def probe_area():
    return [area2(STAR), area2(STAR[::-1]), area2([(0, 0), (4, 0), (4, 3)]), area2([(0, 0), (5, 5)])]


def probe_convex():
    square = [(0, 0), (4, 0), (4, 4), (0, 4)]
    return [is_convex(square), is_convex(square[::-1]), is_convex(STAR), is_convex([(0, 0), (2, 0), (4, 0), (4, 4)])]


def probe_contains():
    points = [(1, 1), (2, 2), (2, 1), (3, 3), (0, 0), (4, 2), (5, 0), (-1, 0), (2, 0), (1, 3), (2, 4), (0, 4)]
    return [contains(STAR, point) for point in points] + [contains(STAR[::-1], point) for point in points]


def probe_hull():
    return [
        hull([(x, y) for x in range(4) for y in range(3)]),
        hull([(0, 0), (5, 5), (2, 2)]),
        hull([(1, 1), (1, 1)]),
        hull(STAR),
        hull([]),
    ]
