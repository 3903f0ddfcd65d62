"""Sharing an amount so that not one cent is lost."""


def split(cents, weights):
    """Parts in proportion to the weights; cents left over go to the largest remainders, earlier parts first."""
    whole = sum(weights)
    if whole <= 0 or min(weights) < 0:
        raise ValueError("weights are not negative, and not all zero")
    parts = [cents * weight // whole for weight in weights]
    rest = [cents * weight % whole for weight in weights]
    order = sorted(range(len(weights)), key=lambda index: (-rest[index], index))
    for index in order[: cents - sum(parts)]:
        parts[index] += 1
    return parts


def settle(paid):
    """Payments (who, to whom, cents) after which everybody has paid the same; `paid` maps names to cents.

    The one who owes most pays the one who is owed most, until nobody owes anything.
    """
    names = sorted(paid)
    fair = dict(zip(names, split(sum(paid.values()), [1] * len(names))))
    balance = {name: paid[name] - fair[name] for name in names}
    payments = []
    while any(balance.values()):
        debtor = min(names, key=lambda name: (balance[name], name))
        creditor = max(names, key=lambda name: balance[name])
        cents = min(-balance[debtor], balance[creditor])
        payments.append((debtor, creditor, cents))
        balance[debtor] += cents
        balance[creditor] -= cents
    return payments
