"""Matrices as lists of rows."""


def identity(size):
    return [[int(row == column) for column in range(size)] for row in range(size)]


def transpose(matrix):
    return [list(column) for column in zip(*matrix)]


def multiply(first, second):
    """The product; raises ValueError when the sizes do not fit."""
    if any(len(row) != len(second) for row in first):
        raise ValueError("as many columns as the other has rows")
    columns = transpose(second)
    return [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in first]


def power(matrix, exponent):
    """By repeated squaring; the power 0 is the identity."""
    if exponent < 0:
        raise ValueError("the exponent is not negative")
    result = identity(len(matrix))
    while exponent:
        if exponent % 2:
            result = multiply(result, matrix)
        matrix = multiply(matrix, matrix)
        exponent //= 2
    return result
