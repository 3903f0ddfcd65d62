"""Ballots are lists of names, the best first; names may be missing. Ties go by alphabet."""

from collections import Counter


def runoff(ballots):
    """The winner and who left in which order: the one with the fewest first places leaves, until one has most.

    Of equally weak ones the last by alphabet leaves. None when there is no name on any ballot.
    """
    left = {name for ballot in ballots for name in ballot}
    gone = []
    while left:
        firsts = Counter(dict.fromkeys(left, 0))
        for ballot in ballots:
            choice = next((name for name in ballot if name in left), None)
            if choice is not None:
                firsts[choice] += 1
        leader = min(left, key=lambda name: (-firsts[name], name))
        if firsts[leader] * 2 > sum(firsts.values()):
            return leader, gone
        weakest = max(left, key=lambda name: (-firsts[name], name))
        left.remove(weakest)
        gone.append(weakest)
    return None, gone


def borda(ballots):
    """Points for each name: with n names in all, n - 1 for a first place, n - 2 for a second, 0 when missing."""
    names = sorted({name for ballot in ballots for name in ballot})
    points = dict.fromkeys(names, 0)
    for ballot in ballots:
        for place, name in enumerate(ballot):
            points[name] += len(names) - 1 - place
    return points


def pairwise_winner(ballots):
    """The one who beats everybody else in pairs, or None. A named one is before all that are missing."""
    names = sorted({name for ballot in ballots for name in ballot})

    def before(ballot, one, other):
        if one not in ballot:
            return False
        return other not in ballot or ballot.index(one) < ballot.index(other)

    def beats(one, other):
        for_one = sum(before(ballot, one, other) for ballot in ballots)
        return for_one > sum(before(ballot, other, one) for ballot in ballots)

    for name in names:
        if all(beats(name, other) for other in names if other != name):
            return name
    return None
