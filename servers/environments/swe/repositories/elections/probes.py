from elections import borda, highest_averages, largest_remainders, pairwise_winner, runoff

VOTES = {"ash": 416, "birch": 338, "cedar": 158, "dogwood": 88}
BALLOTS = [["a", "c", "b"]] * 5 + [["b", "c", "a"]] * 4 + [["c", "b", "a"]] * 3 + [["d"]]


def _seats(won):
    return sorted(won.items())


def probe_dhondt():
    return [_seats(highest_averages(VOTES, seats)) for seats in (0, 1, 3, 10, 17)]


def probe_odd_divisors():
    return [_seats(highest_averages(VOTES, seats, first=1)) for seats in (1, 3, 10, 17)]


def probe_hurdle():
    return [
        _seats(highest_averages(VOTES, 10, hurdle=10)),
        _seats(largest_remainders(VOTES, 10, hurdle=10)),
        _seats(largest_remainders(VOTES, 17, hurdle=20)),
        _seats(highest_averages({"x": 95, "y": 5}, 20, hurdle=5)),
        _seats(highest_averages({"x": 1, "y": 1}, 2, hurdle=60)),
    ]


def probe_remainders():
    return [_seats(largest_remainders(VOTES, seats)) for seats in (0, 1, 3, 10, 17)]


def probe_equal_votes():
    return [
        _seats(highest_averages({"y": 5, "x": 5}, 1)),
        _seats(largest_remainders({"y": 5, "x": 5}, 3)),
        _seats(highest_averages({"x": 6, "y": 3}, 2)),
    ]


def probe_no_votes():
    return [_seats(highest_averages({"x": 0}, 3)), _seats(largest_remainders({"x": 0, "y": 0}, 3)), largest_remainders({}, 2)]


def probe_runoff():
    said = [runoff(BALLOTS), runoff([["a"], ["b"]]), runoff([]), runoff([[], ["z"]]), runoff([["a", "b"], ["b", "a"], ["c", "b"]])]
    return [[winner, gone] for winner, gone in said]


def probe_the_weakest_leaves():
    winner, gone = runoff([["d"]] * 5 + [["a", "d"]] * 3 + [["c"]] * 4)
    return [winner, gone]


def probe_spoilt_ballots():
    winner, gone = runoff([["a"]] * 3 + [["b", "c"]] * 2 + [["c", "b"]] * 2 + [["d"]])
    return [winner, gone]


def probe_borda():
    return [sorted(borda(BALLOTS).items()), borda([]), sorted(borda([["a"], ["b", "a", "c"]]).items())]


def probe_pairs():
    circle = [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]
    return [pairwise_winner(BALLOTS), pairwise_winner(circle), pairwise_winner([["a"], ["a"], ["b", "a"]]), pairwise_winner([])]
