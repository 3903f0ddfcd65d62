"""Whole numbers: divisors, bases, digits, sequences."""

from __future__ import annotations

from .catalog import ints, problem


@problem(
    draw=lambda rng, n: (rng.randint(1, 50 * n), rng.randint(1, 50 * n)),
    edges=[(12, 18), (7, 7), (1, 9), (9, 1), (21, 14), (17, 5)],
    wrong=[("while b", "while b > 1"), ("while b", "if b"), ("return a", "return b")],
)
def common_divisor(a: int, b: int) -> int:
    """Answer the greatest number that divides both numbers, which are above 0."""
    while b:
        a, b = b, a % b
    return a


@problem(
    draw=lambda rng, n: (rng.randint(1, 5 * n),),
    edges=[(10,), (2,), (1,), (30,), (9,), (25,), (3,)],
    wrong=[
        ("range(number * number, limit + 1, number)", "range(number * number, limit, number)"),
        ("limit + 1)\n    sieve", "limit)\n    sieve"),
        ("sieve[:2] = [False, False]", "sieve[:1] = [False]"),
        ("sum(sieve)", "sum(sieve[:limit])"),
    ],
)
def count_primes(limit: int) -> int:
    """Answer how many prime numbers there are from 1 up to and including the limit, which is at least 1."""
    sieve = [True] * (limit + 1)
    sieve[:2] = [False, False]
    for number in range(2, int(limit**0.5) + 1):
        if sieve[number]:
            for multiple in range(number * number, limit + 1, number):
                sieve[multiple] = False
    return sum(sieve)


@problem(
    draw=lambda rng, n: (rng.randint(2, 40 * n),),
    edges=[(12,), (2,), (49,), (97,), (360,), (1024,)],
    wrong=[
        ("while number % factor == 0", "if number % factor == 0"),
        ("factor * factor <= number", "factor * factor < number"),
        ("    if number > 1:\n        found.append(number)\n", ""),
    ],
)
def prime_factors(number: int) -> list[int]:
    """Answer the prime factors of the number, which is at least 2, from the smallest to the largest, each as often as
    it divides the number."""
    found = []
    factor = 2
    while factor * factor <= number:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    if number > 1:
        found.append(number)
    return found


@problem(
    draw=lambda rng, n: (rng.randint(0, 10 ** min(18, n)),),
    edges=[(38,), (0,), (9,), (199,), (10,), (999999,)],
    wrong=[
        ("while number > 9", "if number > 9"),
        ("number > 9", "number > 10"),
        ("map(int, str(number))", "[number % 9]"),
    ],
)
def digital_root(number: int) -> int:
    """Add the digits of the number, then the digits of that sum, and so on until one digit is left. Answer it."""
    while number > 9:
        number = sum(map(int, str(number)))
    return number


@problem(
    draw=lambda rng, n: (rng.randint(0, n * n), rng.randint(2, 16)),
    edges=[(255, 16), (10, 2), (0, 7), (35, 36), (15, 16), (8, 3)],
    wrong=[
        ("digits[::-1]", "digits"),
        ('    if number == 0:\n        return "0"\n', ""),
        ('"0123456789abcdefghijklmnopqrstuvwxyz"', '"0123456789bcdefghijklmnopqrstuvwxyz0"'),
    ],
)
def in_base(number: int, base: int) -> str:
    """Write the number, which is at least 0, in the given base from 2 to 36. The digits above 9 are the letters from
    a on."""
    signs = "0123456789abcdefghijklmnopqrstuvwxyz"
    if number == 0:
        return "0"
    digits = ""
    while number:
        digits += signs[number % base]
        number //= base
    return digits[::-1]


@problem(
    draw=lambda rng, n: (rng.randint(1, n),),
    edges=[(10,), (1,), (2,), (90,), (3,), (300,)],
    wrong=[("range(place - 1)", "range(place)"), ("a, b = 1, 1", "a, b = 0, 1"), ("b, a + b", "b, float(a) + b")],
    large=3_000,
)
def fibonacci(place: int) -> int:
    """Answer the number at the given place of the sequence that begins with 1 and 1 and goes on with the sum of the
    two before. The first place is 1."""
    a, b = 1, 1
    for _ in range(place - 1):
        a, b = b, a + b
    return a


@problem(
    draw=lambda rng, n: (rng.randint(0, n), rng.randint(0, n), rng.randint(2, 1000)),
    edges=[(2, 10, 1000), (3, 0, 7), (0, 5, 9), (10, 9, 6), (7, 560, 561), (5, 0, 2)],
    wrong=[
        ("result = 1", "result = 0"),
        ("if exponent % 2", "if True"),
        ("base = base * base % modulus", "base = base + base % modulus"),
    ],
    large=10**15,
)
def power_mod(base: int, exponent: int, modulus: int) -> int:
    """Answer the remainder of base to the power of exponent on division by modulus. The exponent is at least 0, the
    modulus at least 2. Anything to the power of 0 is 1."""
    result = 1
    base %= modulus
    while exponent:
        if exponent % 2:
            result = result * base % modulus
        base = base * base % modulus
        exponent //= 2
    return result


@problem(
    draw=lambda rng, n: (rng.randint(1, 3 * n),),
    edges=[(6,), (12,), (1,), (16,), (28,), (13,)],
    wrong=[
        ("number // factor != factor", "True"),
        ("total = 0", "total = number"),
        ("factor * factor <= number", "factor * factor < number"),
    ],
)
def divisor_sum(number: int) -> int:
    """Answer the sum of all numbers that divide the number, 1 and the number itself included."""
    total = 0
    factor = 1
    while factor * factor <= number:
        if number % factor == 0:
            total += factor
            if number // factor != factor:
                total += number // factor
        factor += 1
    return total


@problem(
    draw=lambda rng, n: (rng.randint(1, n),),
    edges=[(6,), (1,), (7,), (27,), (2,), (97,)],
    wrong=[
        ("number > 1", "number > 2"),
        ("3 * number + 1", "3 * number - 1 if number < 3 else number - 1"),
        ("steps = 0", "steps = 1"),
    ],
)
def collatz_steps(number: int) -> int:
    """An even number is halved, an odd one is tripled and 1 is added. Answer after how many such steps the number
    first is 1."""
    steps = 0
    while number > 1:
        number = 3 * number + 1 if number % 2 else number // 2
        steps += 1
    return steps


@problem(
    draw=lambda rng, n: (rng.randint(1, 3999),),
    edges=[(1994,), (4,), (3999,), (9,), (40,), (58,), (90,)],
    wrong=[
        ('(4, "IV"), ', ""),
        ('(9, "IX"), ', ""),
        ('(5, "V"), ', ""),
        ("while number >= value", "while number > value"),
    ],
)
def roman(number: int) -> str:
    """Write the number, from 1 to 3999, in Roman numerals."""
    signs = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
    ]
    signs += [(9, "IX"), (5, "V"), (4, "IV"), (1, "I")]
    out = ""
    for value, sign in signs:
        while number >= value:
            out += sign
            number -= value
    return out


@problem(
    draw=lambda rng, n: (ints(rng, max(1, n), 1, 12),),
    edges=[([4, 6],), ([5],), ([2, 3, 4],), ([7, 7],), ([1, 1],), ([8, 12, 9],)],
    wrong=[
        ("result * number // gcd(result, number)", "result * number"),
        ("result = 1", "result = 2"),
        ("numbers:", "numbers[1:]:"),
    ],
)
def common_multiple(numbers: list[int]) -> int:
    """Answer the smallest number above 0 that each of the numbers divides."""
    from math import gcd

    result = 1
    for number in numbers:
        result = result * number // gcd(result, number)
    return result


@problem(
    draw=lambda rng, n: (rng.randint(0, n * n * n),),
    edges=[(10,), (0,), (1,), (24,), (25,), (10**20,), (10**20 - 1,)],
    wrong=[
        ("low = middle", "low = middle + 1"),
        ("low, high = 0", "low, high = 1"),
        ("return low", "return int(number**0.5 + 0.5)"),
    ],
)
def square_root(number: int) -> int:
    """Answer the largest whole number whose square is not above the number, which is at least 0."""
    low, high = 0, number + 1
    while high - low > 1:
        middle = (low + high) // 2
        if middle * middle <= number:
            low = middle
        else:
            high = middle
    return low


@problem(
    draw=lambda rng, n: (rng.randint(0, 4 * n), rng.randint(0, 4 * n)),
    edges=[(1, 4), (0, 0), (7, 8), (255, 0), (3, 1), (15, 16)],
    wrong=[("a ^ b", "a & b"), ("a ^ b", "a - b if a > b else b - a"), ('.count("1")', '.count("0")')],
)
def different_bits(a: int, b: int) -> int:
    """Answer in how many places of their binary forms the two numbers, both at least 0, differ."""
    return bin(a ^ b).count("1")
