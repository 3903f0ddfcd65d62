"""Check digits after Luhn: every second digit from the right is doubled, and 9 taken off what is above 9."""


def luhn(number):
    """Whether the last digit of a text of digits is right; blanks and hyphens do not count."""
    digits = [int(sign) for sign in number if sign.isdigit()]
    if len(digits) < 2 or any(not sign.isdigit() and sign not in " -" for sign in number):
        return False
    return _sum(digits) % 10 == 0


def with_check_digit(number):
    digits = [int(sign) for sign in number]
    return number + str(-_sum([*digits, 0]) % 10)


def _sum(digits):
    total = 0
    for place, digit in enumerate(reversed(digits)):
        if place % 2:
            digit = digit * 2 - 9 if digit > 4 else digit * 2
        total += digit
    return total
