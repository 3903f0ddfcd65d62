"""Word problems with exact answers, a dozen families and more. Each has a text with all that is needed, and a program
that finds the answer from the text's numbers; the answer itself is computed here, exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import comb, factorial, gcd, lcm
from random import Random

NAMES = (
    "Ada",
    "Ben",
    "Carla",
    "Deniz",
    "Emil",
    "Farah",
    "Goran",
    "Hana",
    "Ivo",
    "Jana",
    "Kofi",
    "Lena",
    "Milo",
    "Nora",
)
FRACTION = "from fractions import Fraction\n"
GOODS = ("apples", "books", "candles", "eggs", "lamps", "pens", "plates", "stamps", "tiles", "tulips")


@dataclass(frozen=True, slots=True)
class Problem:
    """program: prints the answer."""

    text: str
    answer: Fraction
    program: str


Family = Callable[[Random], Problem]


def made(text: str, answer: int | Fraction, program: str) -> Problem:
    return Problem(text, Fraction(answer), program)


def work_rates(rng: Random) -> Problem:
    first, second = rng.sample(range(3, 40), 2)
    names = rng.sample(NAMES, 2)
    text = (
        f"{names[0]} paints a fence alone in {first} hours, {names[1]} in {second} hours. "
        "How many hours do they need together?"
    )
    program = f"{FRACTION}print(1 / (Fraction(1, {first}) + Fraction(1, {second})))"
    return made(text, Fraction(first * second, first + second), program)


def mean_speed(rng: Random) -> Problem:
    out, back = rng.sample(range(20, 130), 2)
    text = (
        f"{rng.choice(NAMES)} drives to a town at {out} km/h and back on the same road at {back} km/h. "
        "What is the mean speed of the whole journey in km/h?"
    )
    program = f"{FRACTION}print(Fraction(2 * {out} * {back}, {out} + {back}))"
    return made(text, Fraction(2 * out * back, out + back), program)


def remainders(rng: Random) -> Problem:
    while True:
        boxes = rng.sample(range(3, 30), 3)
        if gcd(boxes[0], boxes[1]) == gcd(boxes[0], boxes[2]) == gcd(boxes[1], boxes[2]) == 1:
            break
    number = rng.randint(2, boxes[0] * boxes[1] * boxes[2] - 1)
    left = [number % box for box in boxes]
    goods = rng.choice(GOODS)
    text = (
        f"If the {goods} of a shop are packed {boxes[0]} to a box, {left[0]} are left; {boxes[1]} to a box, {left[1]}; "
        f"{boxes[2]} to a box, {left[2]}. What is the smallest number of {goods} above 0 that the shop can have?"
    )
    test = " and ".join(f"n % {box} == {rest}" for box, rest in zip(boxes, left, strict=True))
    program = f"n = 1\nwhile not ({test}):\n    n += 1\nprint(n)"
    return made(text, number, program)


def dice(rng: Random) -> Problem:
    count, sides = rng.randint(2, 4), rng.choice((4, 6, 8, 10, 12))
    total = rng.randint(count + 1, count * sides - 1)
    ways = sum(
        (-1) ** k * comb(count, k) * comb(total - k * sides - 1, count - 1) for k in range((total - count) // sides + 1)
    )
    text = (
        f"{count} fair dice with the numbers 1 to {sides} are thrown. What is the probability that "
        f"their sum is {total}? Answer as a fraction."
    )
    program = (
        f"{FRACTION}from itertools import product\n"
        f"rolls = list(product(range(1, {sides} + 1), repeat={count}))\n"
        f"print(Fraction(sum(sum(roll) == {total} for roll in rolls), len(rolls)))"
    )
    return made(text, Fraction(ways, sides**count), program)


def drawing(rng: Random) -> Problem:
    red, blue = rng.randint(3, 15), rng.randint(3, 15)
    draws = rng.randint(2, 3)
    text = (
        f"A bag holds {red} red and {blue} blue balls. {draws} balls are drawn one after another and not put back. "
        "What is the probability that all of them are red? Answer as a fraction."
    )
    program = f"{FRACTION}from math import comb\nprint(Fraction(comb({red}, {draws}), comb({red + blue}, {draws})))"
    right = Fraction(comb(red, draws), comb(red + blue, draws))
    return made(text, right, program)


def seating(rng: Random) -> Problem:
    count = rng.randint(5, 12)
    names = rng.sample(NAMES, 2)
    text = (
        f"{count} people, {names[0]} and {names[1]} among them, sit down in a row of {count} chairs. In how many "
        f"orders can they sit so that {names[0]} and {names[1]} are not neighbours?"
    )
    program = f"from math import factorial\nprint(factorial({count}) - 2 * factorial({count} - 1))"
    return made(text, factorial(count) - 2 * factorial(count - 1), program)


def interest(rng: Random) -> Problem:
    amount, rate, years = rng.randint(2, 90) * 100, rng.choice((2, 4, 5, 8, 10, 20, 25)), rng.randint(2, 5)
    text = (
        f"{amount} EUR lie in an account at {rate} per cent of interest a year, which is added at the end of each "
        f"year. How much is in it after {years} years, in EUR? Do not round: answer as a fraction or with all decimals."
    )
    program = f"{FRACTION}print({amount} * (1 + Fraction({rate}, 100)) ** {years})"
    right = amount * (1 + Fraction(rate, 100)) ** years
    return made(text, right, program)


def mixture(rng: Random) -> Problem:
    first, second = rng.randint(2, 30), rng.randint(2, 30)
    strong, weak = rng.randint(40, 95), rng.randint(1, 35)
    text = (
        f"{first} litres of a {strong} per cent solution are mixed with {second} litres of a {weak} per cent solution. "
        "How many per cent has the mixture? Answer as a fraction where it is no whole number."
    )
    program = f"{FRACTION}print(Fraction({first} * {strong} + {second} * {weak}, {first} + {second}))"
    return made(text, Fraction(first * strong + second * weak, first + second), program)


def meeting(rng: Random) -> Problem:
    distance, slow, fast = rng.randint(60, 900), rng.randint(20, 60), rng.randint(61, 140)
    head_start = rng.randint(1, 3)
    distance += slow * head_start
    text = (
        f"Two towns are {distance} km apart. A lorry leaves the first at {slow} km/h; {head_start} hours later a car "
        f"leaves the second towards it at {fast} km/h. How many hours after the lorry's start do they meet? "
        "Answer as a fraction where it is no whole number."
    )
    program = f"{FRACTION}print({head_start} + Fraction({distance - slow * head_start}, {slow + fast}))"
    right = head_start + Fraction(distance - slow * head_start, slow + fast)
    return made(text, right, program)


def coins(rng: Random) -> Problem:
    values = sorted(rng.sample((1, 2, 5, 10, 20, 50), 4))
    amount = rng.randint(20, 150)
    text = (
        f"There are coins of {', '.join(map(str, values[:-1]))} and {values[-1]} cents, as many as one likes. In how "
        f"many ways can exactly {amount} cents be paid, if the order does not matter?"
    )
    ways = [1] + [0] * amount
    for value in values:
        for total in range(value, amount + 1):
            ways[total] += ways[total - value]
    program = (
        f"ways = [1] + [0] * {amount}\nfor v in {values}:\n    for t in range(v, {amount} + 1):\n"
        f"        ways[t] += ways[t - v]\nprint(ways[{amount}])"
    )
    return made(text, ways[amount], program)


def multiples(rng: Random) -> Problem:
    first, second = rng.sample(range(3, 20), 2)
    limit = rng.randint(300, 5000)
    text = (
        f"How many whole numbers from 1 to {limit}, both included, can be divided by {first} or by {second} without "
        "a remainder?"
    )
    both = limit // lcm(first, second)
    right = limit // first + limit // second - both
    program = f"print(sum(n % {first} == 0 or n % {second} == 0 for n in range(1, {limit} + 1)))"
    return made(text, right, program)


def ages(rng: Random) -> Problem:
    child, years, times = rng.randint(4, 20), rng.randint(2, 15), rng.randint(2, 5)
    parent = times * (child + years) - years
    names = rng.sample(NAMES, 2)
    text = (
        f"In {years} years {names[0]} will be {times} times as old as {names[1]}. Together they are {parent + child} "
        f"years old today. How old is {names[0]} today?"
    )
    program = (
        f"for child in range({parent + child} + 1):\n    parent = {parent + child} - child\n"
        f"    if parent + {years} == {times} * (child + {years}):\n        print(parent)"
    )
    return made(text, parent, program)


def last_digits(rng: Random) -> Problem:
    base, exponent, digits = rng.randint(3, 99), rng.randint(50, 3000), rng.randint(2, 3)
    text = (
        f"{base} is multiplied by itself until there are {exponent} factors. Which number do the last {digits} "
        "digits of the product form? Leave zeros at its beginning out."
    )
    program = f"print(pow({base}, {exponent}, 10 ** {digits}))"
    return made(text, pow(base, exponent, 10**digits), program)


def paths(rng: Random) -> Problem:
    east, north = rng.randint(3, 9), rng.randint(3, 9)
    x, y = rng.randint(1, east - 1), rng.randint(1, north - 1)
    text = (
        f"A town has a grid of streets. One walks from a corner to the corner {east} blocks east and {north} blocks "
        f"north of it, only to the east and to the north. The corner {x} blocks east and {y} blocks north of the "
        "start is closed. How many ways are there?"
    )
    right = comb(east + north, east) - comb(x + y, x) * comb(east + north - x - y, east - x)
    program = (
        "from functools import cache\n\n@cache\ndef ways(e, n):\n"
        f"    if e < 0 or n < 0 or (e, n) == ({x}, {y}):\n        return 0\n"
        f"    return 1 if (e, n) == (0, 0) else ways(e - 1, n) + ways(e, n - 1)\n\nprint(ways({east}, {north}))"
    )
    return made(text, right, program)


def discounts(rng: Random) -> Problem:
    price, first, second = rng.randint(20, 400), rng.choice((10, 20, 25, 30, 40)), rng.choice((5, 10, 15, 20))
    text = (
        f"A coat costs {price} EUR. It becomes {first} per cent cheaper, and later another {second} per cent "
        "cheaper than that. How many EUR does it cost now? Do not round: answer as a fraction or with all decimals."
    )
    program = f"{FRACTION}print({price} * (1 - Fraction({first}, 100)) * (1 - Fraction({second}, 100)))"
    right = price * (1 - Fraction(first, 100)) * (1 - Fraction(second, 100))
    return made(text, right, program)


FAMILIES: dict[str, Family] = {
    family.__name__: family
    for family in (
        *(work_rates, mean_speed, remainders, dice, drawing, seating, interest, mixture),
        *(meeting, coins, multiples, ages, last_digits, paths, discounts),
    )
}
