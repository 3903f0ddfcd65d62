"""Polygons as lists of corners (x, y), without the first one again at the end."""


def turn(a, b, c):
    """Above 0 when a, b, c turn left, below 0 when right, 0 on a line."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def area2(corners):
    """Twice the area, never negative."""
    pairs = zip(corners, corners[1:] + corners[:1])
    return abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in pairs))


def is_convex(corners):
    """Whether all turns go the same way; corners on a straight line do not matter."""
    count = len(corners)
    turns = [turn(corners[i], corners[(i + 1) % count], corners[(i + 2) % count]) for i in range(count)]
    return all(t >= 0 for t in turns) or all(t <= 0 for t in turns)


def contains(corners, point):
    """Whether a point lies inside or on the edge."""
    x, y = point
    inside = False
    for (x1, y1), (x2, y2) in zip(corners, corners[1:] + corners[:1]):
        on_line = turn((x1, y1), (x2, y2), point) == 0
        if on_line and min(x1, x2) <= x <= max(x1, x2) and min(y1, y2) <= y <= max(y1, y2):
            return True
        if (y1 > y) != (y2 > y):
            side = turn((x1, y1), (x2, y2), point)
            if (side > 0) == (y2 > y1):
                inside = not inside
    return inside


def hull(points):
    """Corners of the smallest convex polygon around all points, from the leftmost one, turning left."""
    points = sorted(set(points))
    if len(points) <= 2:
        return points

    def half(ordered):
        chain = []
        for point in ordered:
            while len(chain) >= 2 and turn(chain[-2], chain[-1], point) <= 0:
                chain.pop()
            chain.append(point)
        return chain[:-1]

    return half(points) + half(points[::-1])
