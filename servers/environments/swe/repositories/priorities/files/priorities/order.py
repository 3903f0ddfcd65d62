"""Orders of names in which each comes after all it needs."""


class Loop(Exception):
    """Some names need each other."""


def order(needs):
    """One such order: among those that may come next, the first by alphabet. `needs` maps a name to names."""
    left = {name: set(others) for name, others in needs.items()}
    for others in needs.values():
        for name in others:
            left.setdefault(name, set())
    done = []
    while left:
        ready = sorted(name for name, others in left.items() if not others)
        if not ready:
            raise Loop(", ".join(sorted(left)))
        done.append(ready[0])
        del left[ready[0]]
        for others in left.values():
            others.discard(ready[0])
    return done


def waves(needs):
    """The same names in groups: each group needs only earlier groups, and none could come earlier."""
    depth = {}
    for name in order(needs):
        depth[name] = max((depth[other] + 1 for other in needs.get(name, ())), default=0)
    groups = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, level in depth.items():
        groups[level].append(name)
    return [sorted(group) for group in groups]
