"""The Harrow Isles: an invented archipelago, as facts, as short documents, and as questions about them.

Nothing in it exists, so nothing of it can be known without reading. Names and sentences are written by hand; years,
lengths and who stands where are drawn once from a fixed seed, and are the same in every process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random

ISLANDS = ("Aldra", "Brannoch", "Corriemore", "Dunsay", "Eskerry", "Fenwick Holm", "Garrisay", "Hallin")
TOWNS = (
    *("Ashgate", "Birkhaven", "Copperwick", "Dovercleugh", "Elmstrand", "Fallowmere", "Gullport", "Hazelquay"),
    *("Inverlund", "Juniper Bay", "Kestrel Cove", "Larkness", "Mallowford", "Nettlestone", "Oxhythe", "Pennywharf"),
)
LIGHTHOUSES = (
    *("Arrow Point", "Bittern Rock", "Candle Head", "Drumlin Spit", "Ember Stack"),
    *("Foxglove Ness", "Grey Mare", "Hollow Skerry", "Iron Tooth", "Jackdaw"),
)
FERRIES = (
    "Amber Tern",
    "Blue Gannet",
    "Calm Passage",
    "Dunlin",
    "Evening Star",
    "Fulmar",
    "Grebe",
    "Halcyon",
    "Isabel Jane",
)
MUSEUMS = ("Saltworks", "Clockmakers'", "Rope Walk", "Whale Road", "Old Mint", "Glass House", "Weavers'", "Tide Mill")
BRIDGES = ("Abbot's", "Butter", "Chain", "Ducking", "Eel", "Ferrier's", "Gate", "Heron")
FESTIVALS = (
    "Lantern Week",
    "the Herring Fair",
    "Bell Night",
    "the Apple Rolling",
    "Candle Regatta",
    "Kite Sunday",
    "the Wool Ride",
)
RIVERS = ("Arle", "Bracken Water", "Clew", "Dorran", "Esk Beg", "Fennel Burn", "Garn")
HILLS = ("Ailish Top", "Black Combe", "Cairn Dubh", "Dimple Hill", "Ewe Fell", "Fiddler's Seat", "Goat Law")

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = ("January", "February", "April", "May", "June", "August", "September", "October", "November")
GOODS = (
    "linen",
    "smoked eel",
    "roof slate",
    "heather honey",
    "sea salt",
    "barley spirit",
    "blown glass",
    "willow baskets",
)
COLOURS = ("white", "red", "green", "golden")
SUBJECTS = ("salt making", "clocks", "rope", "whaling songs", "coins", "glass", "tapestry", "tide mills")
MATERIALS = ("oak", "granite", "wrought iron", "brick")
ROCKS = ("basalt", "slate", "pink granite", "sandstone")
DISHES = (
    "eel pie",
    "seed cake",
    "barley broth",
    "honey dumplings",
    "pickled samphire",
    "apple fritters",
    "rye pancakes",
)
PATTERNS = ("blue and white stripes", "a black hull", "a green funnel", "red railings", "a yellow hull")


@dataclass(frozen=True, slots=True)
class Thing:
    """Something in the isles. `facts` are texts by field; a field of `links` names another thing."""

    kind: str
    name: str
    facts: Mapping[str, str]
    links: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return TITLES[self.kind].format(self.name)


TITLES = {
    "island": "{} (island)",
    "town": "{}",
    "lighthouse": "{} lighthouse",
    "ferry": "{} (ferry)",
    "museum": "{} Museum",
    "bridge": "{} Bridge",
    "festival": "{}",
    "river": "River {}",
    "hill": "{}",
}


@cache
def things() -> Mapping[str, Thing]:
    """All things by name."""
    rng = Random("the Harrow Isles")
    made = [*_land(rng), *_towns(rng), *_built(rng), *_customs(rng)]
    return {thing.name: thing for thing in made}


def _land(rng: Random) -> Iterator[Thing]:
    for index, name in enumerate(ISLANDS):
        facts = {"area": str(rng.randint(14, 480)), "goods": GOODS[index], "capital": TOWNS[index]}
        yield Thing("island", name, facts, ("capital",))
    heights = rng.sample(range(210, 980), len(HILLS))
    for name, height in zip(HILLS, heights, strict=True):
        facts = {"height": str(height), "rock": rng.choice(ROCKS), "island": rng.choice(ISLANDS)}
        yield Thing("hill", name, facts, ("island",))
    for name in RIVERS:
        facts = {"length": str(rng.randint(6, 58)), "hill": rng.choice(HILLS), "mouth": rng.choice(TOWNS)}
        yield Thing("river", name, facts, ("hill", "mouth"))


def _towns(rng: Random) -> Iterator[Thing]:
    years = rng.sample(range(1080, 1690), len(TOWNS))
    for index, (name, year) in enumerate(zip(TOWNS, years, strict=True)):
        island = ISLANDS[index] if index < len(ISLANDS) else rng.choice(ISLANDS)
        facts = {"island": island, "people": str(rng.randint(3, 96) * 100), "market": rng.choice(WEEKDAYS)}
        yield Thing("town", name, {**facts, "founded": str(year)}, ("island",))


def _built(rng: Random) -> Iterator[Thing]:
    lit = rng.sample(range(1780, 1930), len(LIGHTHOUSES))
    for name, year in zip(LIGHTHOUSES, lit, strict=True):
        facts = {"town": rng.choice(TOWNS), "lit": str(year), "height": str(rng.randint(17, 58))}
        yield Thing("lighthouse", name, {**facts, "colour": rng.choice(COLOURS)}, ("town",))
    for name in FERRIES:
        start, end = rng.sample(TOWNS, 2)
        facts = {"start": start, "end": end, "minutes": str(rng.randint(15, 190)), "look": rng.choice(PATTERNS)}
        yield Thing("ferry", name, facts, ("start", "end"))
    for name, subject in zip(MUSEUMS, SUBJECTS, strict=True):
        facts = {"town": rng.choice(TOWNS), "subject": subject, "closed": rng.choice(WEEKDAYS)}
        yield Thing("museum", name, facts, ("town",))
    for name in BRIDGES:
        facts = {"town": rng.choice(TOWNS), "river": rng.choice(RIVERS), "material": rng.choice(MATERIALS)}
        yield Thing("bridge", name, {**facts, "built": str(rng.randint(1490, 1910))}, ("town", "river"))


def _customs(rng: Random) -> Iterator[Thing]:
    for name, dish in zip(FESTIVALS, DISHES, strict=True):
        facts = {"town": rng.choice(TOWNS), "month": rng.choice(MONTHS), "dish": dish}
        yield Thing("festival", name, facts, ("town",))


#: What is written about a thing: for each kind some ways to put it. The first sentences tell less than the last.
TEXTS: Mapping[str, tuple[str, ...]] = {
    "island": (
        "{name} is one of the Harrow Isles. Most of it is pasture behind dry stone walls. It covers {area} square "
        "kilometres, and its seat of government is {capital}. Traders know the island for its {goods}.",
        "Seen from the sea, {name} is a long grey ridge. Those who land find hedges and wet meadows. {capital} is "
        "where its council meets; the land measures {area} square kilometres. For centuries {goods} has paid "
        "the rents here.",
        "Of the Harrow Isles, {name} has the mildest winters. Its council sits in {capital}. Surveyors give it {area} "
        "square kilometres. Ask in any harbour for {goods}, and they will say it comes from here.",
    ),
    "town": (
        "{name} is a town on {island}. Its streets run down to a small harbour. The charter was given in {founded}, "
        "and market is still held every {market}. At the last count {people} people lived there.",
        "A harbour, a church and two rows of lime trees: such is {name}. It stands on {island}. Some {people} people "
        "call it home. Stalls fill its square on every {market}, as they have since the founding in {founded}.",
        "On {island} lies {name}, with its back to the wind. Founded in {founded}, it burned down twice and was built "
        "again in stone. {market} is market day. The census found {people} inhabitants.",
    ),
    "lighthouse": (
        "The {name} lighthouse warns ships off a reef near {town}. Its keepers kept goats. The lamp was first lit in "
        "{lit}; the tower is {height} metres tall and shows a {colour} light.",
        "Near {town} stands the {name} lighthouse. Until a causeway was laid it could be reached only at low water. "
        "Its {colour} beam comes from {height} metres above the rock, and has done so since {lit}.",
        "Sailors bound for {town} look out for {name}. The lighthouse there has burned a {colour} light ever since "
        "{lit}. Painters like its tower, which rises {height} metres.",
    ),
    "ferry": (
        "The {name} is a ferry of the Harrow Isles. She carries carts, sheep and the mail. Her crossing from {start} "
        "to {end} takes {minutes} minutes. You know her by {look}.",
        "With {look}, the {name} is easy to tell from other ferries. She leaves {start} in the morning and ties up at "
        "{end} after {minutes} minutes.",
        "Between {start} and {end} sails the {name}. In fair weather the ferry needs {minutes} minutes one way. "
        "Her owners gave her {look}.",
    ),
    "museum": (
        "The {name} Museum fills an old store house in {town}. Children may touch almost everything. Its rooms are "
        "about {subject}. It opens all week except on {closed}.",
        "Visitors to {town} on a wet day end up in the {name} Museum. Everything in it has to do with {subject}. Do "
        "not come on a {closed}: then it is shut.",
    ),
    "bridge": (
        "{name} Bridge crosses the {river} in {town}. A toll was taken there until the guild was dissolved. It was "
        "built of {material} in {built}.",
        "In {town}, {name} Bridge carries the coast road over the {river}. The floods have never moved it. Masons and "
        "carpenters finished it in {built}; the arches are {material}.",
    ),
    "festival": (
        "{name} is kept in {town} every {month}. The evening ends with drums on the quay. Nobody goes home before the "
        "{dish} is eaten.",
        "Every {month} the people of {town} keep {name}. Shops close at noon. By custom {dish} is served at "
        "long tables.",
    ),
    "river": (
        "The {name} is a river that drives several mills. It rises on {hill}, and after {length} kilometres it reaches "
        "the sea at {mouth}.",
        "Salmon run up the {name} in autumn. From its spring on {hill} to its mouth at {mouth} it measures {length} "
        "kilometres.",
    ),
    "hill": (
        "{name} stands on {island}. On clear days one sees half of the isles from it. It is made of {rock} and is "
        "{height} metres high.",
        "Walkers on {island} climb {name} for the view. Its {rock} is bare near the top, at {height} metres.",
    ),
}
CUSTOMS = (
    (
        "Isles Pilotage",
        "Every ship above forty tons takes a pilot on board before it enters a harbour of the Harrow Isles.",
    ),
    (
        "The Common Table",
        "In hard winters each town of the isles keeps one kitchen open to all, paid for by the harbours.",
    ),
    (
        "Peat Rights",
        "Households may cut peat on common land between the spring and the autumn equinox, and stack it to dry.",
    ),
    ("Post of the Isles", "Letters travel with the ferries. A red flag on the quay says that a mail bag has arrived."),
    (
        "Slate Roofs",
        "Most roofs of the isles are slate, hung on oak pegs so that gales lift them without breaking them.",
    ),
)


@dataclass(frozen=True, slots=True)
class Document:
    id: str
    title: str
    text: str


@cache
def documents() -> tuple[Document, ...]:
    """One short document about every thing, and some about customs."""
    made = []
    for index, thing in enumerate(things().values()):
        forms = TEXTS[thing.kind]
        text = forms[index % len(forms)].format(name=thing.name, **thing.facts)
        made.append(Document(_slug(thing.title), thing.title, text[0].upper() + text[1:]))
    return (*made, *(Document(_slug(title), title, text) for title, text in CUSTOMS))


def _slug(title: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower().replace("'", "")).split())


#: How a thing is named in a question.
NAMED = {
    "island": "the island of {}",
    "town": "{}",
    "lighthouse": "the {} lighthouse",
    "ferry": "the ferry {}",
    "museum": "the {} Museum",
    "bridge": "{} Bridge",
    "festival": "{}",
    "river": "the river {}",
    "hill": "{}",
}
#: What can be asked about a thing: two ways to ask, and a unit that may stand behind the answer.
ASKED: Mapping[str, Mapping[str, tuple[tuple[str, str], str]]] = {
    "island": {
        "area": (
            ("How many square kilometres does {} cover?", "What is the area of {} in square kilometres?"),
            "square kilometres",
        ),
        "goods": (("What is {} known for among traders?", "Which goods come from {}?"), ""),
        "capital": (("In which town does the council of {} sit?", "What is the seat of government of {}?"), ""),
    },
    "town": {
        "founded": (("In which year was {} founded?", "When was {} founded?"), ""),
        "market": (("On which day is market held in {}?", "What is the market day of {}?"), ""),
        "people": (("How many people live in {}?", "How many inhabitants has {}?"), "people"),
        "island": (("On which island is {}?", "Which island does one land on to visit {}?"), ""),
    },
    "lighthouse": {
        "lit": (("In which year was {} first lit?", "Since which year has {} burned?"), ""),
        "height": (("How many metres tall is the tower of {}?", "How high is {} in metres?"), "metres"),
        "colour": (("Which colour does {} show?", "What is the colour of the light of {}?"), ""),
        "town": (("Which town is {} near?", "Near which town does {} stand?"), ""),
    },
    "ferry": {
        "minutes": (
            ("How many minutes does the crossing of {} take?", "How long does {} need, in minutes?"),
            "minutes",
        ),
        "look": (("What does one know {} by?", "What sets {} apart from other ferries?"), ""),
        "start": (("From which town does {} leave?", "Where does {} begin her crossing?"), ""),
        "end": (("At which town does {} arrive?", "Where does the crossing of {} end?"), ""),
    },
    "museum": {
        "subject": (("What is {} about?", "Which subject do the rooms of {} have?"), ""),
        "closed": (("On which day is {} shut?", "When is {} closed?"), ""),
        "town": (("In which town is {}?", "Where is {}?"), ""),
    },
    "bridge": {
        "material": (("What is {} built of?", "Of which material is {}?"), ""),
        "built": (("In which year was {} built?", "When was {} finished?"), ""),
        "river": (("Which river does {} cross?", "Over which river does {} lead?"), ""),
        "town": (("In which town is {}?", "Which town has {}?"), ""),
    },
    "festival": {
        "month": (("In which month is {} kept?", "When in the year is {}?"), ""),
        "dish": (("What is eaten at {}?", "Which dish belongs to {}?"), ""),
        "town": (("Which town keeps {}?", "Where is {} kept?"), ""),
    },
    "river": {
        "length": (("How many kilometres long is {}?", "What is the length of {} in kilometres?"), "kilometres"),
        "hill": (("On which hill does {} rise?", "Where is the spring of {}?"), ""),
        "mouth": (("At which town does {} reach the sea?", "Where is the mouth of {}?"), ""),
    },
    "hill": {
        "height": (("How many metres high is {}?", "What is the height of {} in metres?"), "metres"),
        "rock": (("Which rock is {} made of?", "What stone is {}?"), ""),
        "island": (("On which island is {}?", "Which island has {}?"), ""),
    },
}
#: How another thing is meant by way of the first.
BY_WAY = {
    ("island", "capital"): "the seat of government of {}",
    ("hill", "island"): "the island on which {} stands",
    ("river", "hill"): "the hill on which {} rises",
    ("river", "mouth"): "the town at the mouth of {}",
    ("town", "island"): "the island on which {} lies",
    ("lighthouse", "town"): "the town near {}",
    ("ferry", "start"): "the town that {} leaves from",
    ("ferry", "end"): "the town at which {} arrives",
    ("museum", "town"): "the town that has {}",
    ("bridge", "town"): "the town of {}",
    ("bridge", "river"): "the river under {}",
    ("festival", "town"): "the town that keeps {}",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """Something to ask for: a field of a thing, or of one that it is linked to (`via`)."""

    subject: str
    field: str
    via: str = ""

    def thing(self) -> Thing:
        """The thing whose field is asked for."""
        subject = things()[self.subject]
        return things()[subject.facts[self.via]] if self.via else subject

    def answers(self) -> list[str]:
        thing = self.thing()
        value, unit = thing.facts[self.field], ASKED[thing.kind][self.field][1]
        return [value, f"{value} {unit}"] if unit else [value]

    def question(self, wording: int) -> str:
        """The question, in the first (0) or the second way (1) to ask for the field."""
        subject = things()[self.subject]
        named = NAMED[subject.kind].format(subject.name)
        if self.via:
            named = BY_WAY[subject.kind, self.via].format(named)
        return ASKED[self.thing().kind][self.field][0][wording].format(named)


@cache
def facts() -> tuple[Fact, ...]:
    """All that can be asked, in one step and in two."""
    return tuple(fact for thing in things().values() for fact in _facts_of(thing))


def _facts_of(thing: Thing) -> Iterator[Fact]:
    for field in ASKED[thing.kind]:
        yield Fact(thing.name, field)
    for via in thing.links:
        linked = things()[thing.facts[via]]
        for field in ASKED[linked.kind]:
            if linked.facts[field] != thing.name:
                yield Fact(thing.name, field, via)
