"""Several small numbers in one: the first field is in the highest bits."""


def pack(values, widths):
    """Raises ValueError for a value that its field does not hold."""
    if len(values) != len(widths):
        raise ValueError("a value for each field")
    number = 0
    for value, width in zip(values, widths):
        if not 0 <= value < 1 << width:
            raise ValueError(f"{value} does not fit into {width} bits")
        number = number << width | value
    return number


def unpack(number, widths):
    """Raises ValueError for a number that is larger than all fields together."""
    values = []
    for width in reversed(widths):
        values.append(number & (1 << width) - 1)
        number >>= width
    if number:
        raise ValueError("more bits than fields")
    return values[::-1]
