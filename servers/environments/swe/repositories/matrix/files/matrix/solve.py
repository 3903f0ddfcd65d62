"""Gauss's elimination with fractions, so that nothing is rounded."""

from fractions import Fraction


def _eliminate(matrix):
    """The matrix in echelon form, the columns of its pivots, and the sign of the exchanges of rows."""
    rows = [[Fraction(value) for value in row] for row in matrix]
    pivots, sign = [], 1
    for column in range(len(rows[0]) if rows else 0):
        top = len(pivots)
        found = next((index for index in range(top, len(rows)) if rows[index][column]), None)
        if found is None:
            continue
        if found != top:
            rows[top], rows[found] = rows[found], rows[top]
            sign = -sign
        for index in range(top + 1, len(rows)):
            factor = rows[index][column] / rows[top][column]
            rows[index] = [value - factor * above for value, above in zip(rows[index], rows[top])]
        pivots.append(column)
    return rows, pivots, sign


def determinant(matrix):
    if any(len(row) != len(matrix) for row in matrix):
        raise ValueError("only square matrices have a determinant")
    rows, pivots, product = _eliminate(matrix)
    if len(pivots) < len(matrix):
        return Fraction(0)
    for index, row in enumerate(rows):
        product = product * row[index]
    return Fraction(product)


def rank(matrix):
    return len(_eliminate(matrix)[1])


def solve(matrix, right):
    """The one solution of matrix x = right; None when there is none, ValueError when there are many."""
    count = len(matrix[0])
    rows, pivots, _ = _eliminate([[*row, value] for row, value in zip(matrix, right)])
    if count in pivots:
        return None
    if len(pivots) < count:
        raise ValueError("many solutions")
    solution = [Fraction(0)] * count
    for index in reversed(range(count)):
        known = sum(rows[index][column] * solution[column] for column in range(index + 1, count))
        solution[index] = (rows[index][count] - known) / rows[index][index]
    return solution
