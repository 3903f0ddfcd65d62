from units import add, convert, kind_of, pretty


def _say(fraction):
    return [fraction.numerator, fraction.denominator]


def probe_convert():
    asked = [(3, "km", "m"), (1, "mm", "m"), ("0.1", "m", "cm"), (7, "g", "mg"), (90, "s", "min"), (1, "d", "h")]
    return [_say(convert(*words)) for words in asked]


def probe_exact():
    return [_say(convert("0.1", "t", "kg")), _say(convert(1, "s", "h")), _say(convert("2.5", "dm", "mm"))]


def probe_kinds():
    return [kind_of(unit) for unit in ("mm", "mg", "min", "m", "t", "d")]


def probe_an_unknown_unit():
    return convert(1, "mile", "km")


def probe_an_unknown_target():
    return convert(1, "km", "mile")


def probe_different_kinds():
    return convert(1, "km", "kg")


def probe_add():
    texts = [("1 m 20 cm", None), ("1 m 20 cm", "cm"), ("2h30min", "min"), ("5 kg -200 g", "g"), ("1.5 km", "m")]
    return [_say(add(text, target)) for text, target in texts]


def probe_add_nothing():
    return add("nothing here")


def probe_pretty():
    asked = [(90, "min"), (0, "km"), (1_234_567, "mm"), (-61, "s"), ("1.5", "kg"), (86_400, "s"), (3600, "s"), (9, "t")]
    return [pretty(*words) for words in asked]


def probe_too_fine():
    return pretty("0.5", "mm")
