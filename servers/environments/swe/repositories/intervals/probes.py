from intervals import covers, gaps, merge, parse, show, subtract, total


def probe_touching_ranges():
    return [merge([(1, 2), (3, 4)]), merge([(1, 2), (4, 5)]), merge([(3, 3), (1, 1), (2, 2)])]


def probe_a_range_inside_another():
    return [merge([(1, 9), (2, 3), (4, 12)]), merge([(1, 9), (2, 3)])]


def probe_a_range_that_ends_before_it_starts():
    return merge([(1, 2), (5, 4)])


def probe_subtract():
    return [
        subtract([(1, 10)], [(1, 1), (10, 10)]),
        subtract([(1, 5)], [(0, 9)]),
        subtract([(1, 3), (8, 9)], [(3, 8)]),
        subtract([(1, 3)], [(4, 9)]),
        subtract([(1, 9)], []),
        subtract([(1, 9)], [(2, 2), (4, 4)]),
    ]


def probe_gaps():
    return [gaps([(2, 3), (5, 6)], 1, 8), gaps([], 3, 4), gaps([(1, 9)], 2, 8)]


def probe_total():
    return [total([(1, 3), (2, 5)]), total([(7, 7)]), total([]), total([(1, 2), (3, 4), (9, 9)])]


def probe_covers():
    return [covers([(1, 3), (8, 9)], number) for number in range(11)]


def probe_parse():
    return [parse("1-4, 7, 9-12"), parse("-3--1, 5"), parse(" , 2,,3-3 "), parse(""), parse("8,1-2"), parse("-4")]


def probe_show():
    return [show([(4, 4), (1, 2)]), show([]), show([(-3, -1), (0, 0)]), show([(-3, -1), (1, 1)])]
