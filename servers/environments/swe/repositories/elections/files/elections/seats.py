"""Seats in proportion to votes. Ties go to the party with more votes, then by alphabet."""

from fractions import Fraction


def highest_averages(votes, seats, first=2, hurdle=0):
    """Divisors first - 1, 2, 3 … for first = 2 (1, 2, 3: D'Hondt), or 1, 3, 5 … for first = 1 (Sainte-Lague).

    hurdle: the share of all votes in percent that a party needs.
    """
    allowed = _over(votes, hurdle)
    won = dict.fromkeys(votes, 0)

    def rank(party):
        divisor = won[party] + 1 if first == 2 else 2 * won[party] + 1
        return Fraction(votes[party], divisor), votes[party]

    for _ in range(seats if allowed else 0):
        best = max(sorted(allowed), key=rank)
        won[best] += 1
    return won


def largest_remainders(votes, seats, hurdle=0):
    """Whole quotas first, then one seat each for the largest remainders."""
    allowed = _over(votes, hurdle)
    total = sum(votes[party] for party in allowed)
    won = dict.fromkeys(votes, 0)
    if not total:
        return won
    for party in allowed:
        won[party] = votes[party] * seats // total
    order = sorted(allowed, key=lambda party: (-(votes[party] * seats % total), -votes[party], party))
    for party in order[: seats - sum(won.values())]:
        won[party] += 1
    return won


def _over(votes, hurdle):
    total = sum(votes.values())
    return [party for party, count in votes.items() if count and count * 100 >= hurdle * total]
