"""Orders that cannot all be served."""

from dataclasses import dataclass


@dataclass
class Order:
    name: str
    count: int
    day: int
    urgent: bool = False


def allocate(available, orders):
    """Pieces for each order: urgent ones first, then by day; what is left over serves the next, also in part."""
    given = {order.name: 0 for order in orders}
    for order in sorted(orders, key=lambda order: (not order.urgent, order.day)):
        given[order.name] = min(order.count, available)
        available -= given[order.name]
    return given
