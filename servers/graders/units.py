"""Words behind a number: which are a unit, and so change nothing, and which change the number's value.

`5 apples` is 5; `5 million`, `5 plus 1`, `5xy` and `5 or 6` are not. What is written right behind the number, and every
word of up to three letters, has to be a known abbreviation: it could be variables.
"""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ABBREVIATIONS = _words(
    "mm cm dm km m nm in ft yd mi sq cu g kg mg lb lbs oz s sec ms min h hr hrs d wk yr yrs l L ml mL dl cl gal pt qt "
    "J kJ cal K C F N Pa kPa W kW V kV A mA Hz kHz MHz mol rad deg mph kph rpm bps kb KB MB GB am pm AM PM USD EUR GBP "
    "per of a an the kmh kWh km/h m/s cm/s mi/h ft/s a.m. p.m. men day way cat dog egg hat pen box bus car toy pie cup "
    "kid boy cow hen pig jar bag can cans red \u00b5m \u00b5s \u00b5g"
)
_CHANGING = _words(
    "hundred hundreds thousand thousands million millions billion billions trillion trillions dozen dozens score "
    "scores half halves third thirds quarter quarters fifth fifths tenth tenths percent cents twice double triple plus "
    "minus times divided over squared cubed factorial choose modulo less more mod "
    "than not except without or and to by is are was isn but either wrong maybe equals point negative over root sqrt "
    "sin cos tan cot sec csc log exp pi infty frac cup cap zero one two three four five six seven eight nine ten "
    "eleven twelve twenty thirty forty fifty sixty seventy eighty ninety"
)
#: What is written out, and what is short for it; of words that are not here, only the plural's s is looked through.
_SHORT_FOR = {
    "millimeter": "mm", "centimeter": "cm", "decimeter": "dm", "meter": "m", "kilometer": "km", "nanometer": "nm",
    "micrometer": "\u00b5m", "inch": "in inches", "foot": "ft feet", "yard": "yd", "mile": "mi", "gram": "g",
    "milligram": "mg", "kilogram": "kg", "pound": "lb lbs", "ounce": "oz", "second": "s sec", "millisecond": "ms",
    "minute": "min", "hour": "h hr hrs", "day": "d", "week": "wk", "year": "yr yrs", "liter": "l", "milliliter": "ml",
    "deciliter": "dl", "centiliter": "cl", "gallon": "gal", "pint": "pt", "quart": "qt", "degree": "deg",
    "radian": "rad", "square": "sq", "cubic": "cu", "mile per hour": "mph", "kilometer per hour": "kph kmh",
}  # fmt: skip
_SPELLED: dict[str, str] = {short: name for name, all_short in _SHORT_FOR.items() for short in all_short.split()}
_POWER = re.compile(r"([a-z\u00b5]+) ?\^ ?\{?([23])\}?")
_WORD = re.compile(r"[A-Za-z\u00b5/.]+")
_ALLOWED = re.compile(r"[A-Za-z\u00b5 ./^{}0-9]*")
#: Cents are money, not hundredths, and `in` is both an inch and a word; these are units all the same.
_UNITS_BY_NAME = frozenset({"cents", "in"})
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_SCALED = re.compile(rf"([0-9]) ?({'|'.join(_SCALES)})\b", re.IGNORECASE)
_PERCENT = re.compile(r"([0-9]) ?per ?cent\b", re.IGNORECASE)


def is_unit(words: str, *, attached: bool = False) -> bool:
    """Whether words behind a number leave its value as it is. `attached`: no space stands before them."""
    if not _ALLOWED.fullmatch(words):
        return False
    found = _WORD.findall(words)
    return bool(found) and all(_is_one(word, attached and at == 0) for at, word in enumerate(found))


def _is_one(word: str, attached: bool) -> bool:
    if word in _ABBREVIATIONS or word.casefold() in _UNITS_BY_NAME:
        return True
    parts = [part for part in re.split(r"[/.]", word) if part]
    if len(parts) > 1:
        return all(_is_one(part, attached) for part in parts)
    return bool(parts) and not attached and len(parts[0]) > 3 and parts[0].casefold() not in _CHANGING


def same_unit(one: str, other: str) -> bool:
    """Whether two units are one, as far as names go: `cm` and `centimetres` are, `100 cm` and `1 m` are no question."""
    return _canonical(one) == _canonical(other)


def _canonical(unit: str) -> str:
    powers = _POWER.sub(lambda match: f"{'square' if match[2] == '2' else 'cubic'} {match[1]}", unit.casefold())
    words: list[str] = re.findall(r"[a-z\u00b5]+", powers.replace("/", " per "))
    return " ".join(_singular(_SPELLED.get(word, word)) for word in words)


def _singular(name: str) -> str:
    name = re.sub(r"(met|lit)res?\b", r"\1er", name)
    return name.removesuffix("s") if len(name) > 3 else name


def spelled_out(text: str) -> str:
    """`5 million` and `5 percent` as figures."""
    scaled = _SCALED.sub(lambda match: f"{match[1]}\\times 10^{{{_SCALES[match[2].casefold()]}}}", text)
    return _PERCENT.sub(r"\1%", scaled)
