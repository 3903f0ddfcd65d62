"""How far apart two texts are."""


def distance(first, second):
    """How many signs must be put in, taken out or replaced to get from one text to the other."""
    row = list(range(len(second) + 1))
    for line, sign in enumerate(first, start=1):
        above, row = row, [line]
        for column, other in enumerate(second, start=1):
            row.append(min(above[column] + 1, row[column - 1] + 1, above[column - 1] + (sign != other)))
    return row[-1]


def similar(word, words, limit=2):
    """The words at most `limit` away, nearest first, equally near ones by alphabet; letters' case does not matter."""
    near = [(distance(word.lower(), other.lower()), other) for other in words]
    return [other for apart, other in sorted(near) if apart <= limit]
