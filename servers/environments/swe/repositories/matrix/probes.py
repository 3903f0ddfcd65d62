from matrix import determinant, identity, multiply, power, rank, solve, transpose


def _say(fraction):
    return [fraction.numerator, fraction.denominator]


def probe_multiply():
    return [
        multiply([[1, 2], [3, 4]], [[5, 6], [7, 8]]),
        multiply([[1, 2, 3]], [[1], [2], [3]]),
        multiply([[1], [2]], [[3, 4, 5]]),
        multiply(identity(3), [[1, 2], [3, 4], [5, 6]]),
    ]


def probe_sizes_that_do_not_fit():
    return multiply([[1, 2, 3]], [[1], [2]])


def probe_power():
    fibonacci = [[1, 1], [1, 0]]
    return [power(fibonacci, exponent) for exponent in (0, 1, 2, 5, 10, 31)]


def probe_negative_power():
    return power([[1]], -1)


def probe_transpose():
    return [transpose([[1, 2, 3], [4, 5, 6]]), transpose([[1], [2]])]


def probe_determinant():
    matrices = [
        [[0, 1], [1, 0]],
        [[1, 2], [2, 4]],
        [[2, -3, 1], [2, 0, -1], [1, 4, 5]],
        [[0, 0, 3], [0, 2, 0], [5, 0, 0]],
        [[0, 1, 0], [0, 0, 1], [1, 0, 0]],
        [[7]],
    ]
    return [_say(determinant(matrix)) for matrix in matrices]


def probe_not_square():
    return determinant([[1, 2]])


def probe_rank():
    return [rank([[0, 0], [0, 0]]), rank([[0, 1], [0, 2]]), rank([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), rank([[1, 2]])]


def probe_solve():
    asked = [
        ([[2, 1], [1, 3]], [3, 5]),
        ([[0, 1], [1, 0]], [7, 8]),
        ([[1, 1], [1, 1], [1, 2]], [2, 2, 3]),
        ([[3]], [1]),
        ([[2, 1, -1], [-3, -1, 2], [-2, 1, 2]], [8, -11, -3]),
    ]
    return [[_say(value) for value in solve(*pair)] for pair in asked]


def probe_no_solution():
    return [solve([[1, 1], [1, 1]], [1, 2]), solve([[0]], [1]), solve([[1], [2]], [1, 3])]


def probe_many_solutions():
    return solve([[1, 1], [2, 2]], [1, 2])
