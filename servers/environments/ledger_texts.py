"""The two languages of `ledger`: names of entries, questions, and how values are written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Texts:
    """One language. `entries` turn a subject into an entry's name; `questions` take the subjects by name."""

    entries: dict[str, str]
    questions: dict[str, str]
    frame: str
    towns: tuple[str, ...]
    articles: tuple[str, ...]
    customers: tuple[str, ...]
    projects: tuple[str, ...]
    pieces: str
    partners: str
    decimal_mark: str

    def euros(self, cents: int) -> str:
        return f"{cents // 100}{self.decimal_mark}{cents % 100:02} EUR"


ENGLISH = Texts(
    entries={
        "quantity": "quantity {}",
        "price": "price {}",
        "delivery": "delivery {}",
        "invoice": "invoice {}",
        "customer": "customer {}",
        "group": "discount group {}",
        "revenue": "revenue {}",
        "wages": "wages {}",
        "rent": "rent {}",
        "costs": "costs {}",
        "partners": "partners {}",
    },
    questions={
        "order": "An order of {article} goes to {town}. What does it cost in total? "
        "The price is per piece, delivery is paid once.",
        "discount": "The customer {customer} pays invoice {number} less the discount of its discount group. "
        "How much is there to pay?",
        "balance": "What is left of the revenue of the branch in {town} after wages and rent?",
        "shares": "The costs of the project {project} are shared equally among its partners. "
        "How much does each of them pay?",
    },
    frame="{question}\nThe ledger has the entries {names}, and others that they lead to. Read entries with "
    "`lookup`, do arithmetic with `calculator`, and hand in the amount in EUR with `submit`.",
    towns=("Bristol", "Leeds", "Norwich", "Exeter", "York", "Cardiff", "Dundee", "Oxford"),
    articles=("coffee", "candles", "lamps", "blankets", "mugs", "ropes", "paper", "soap"),
    customers=("Anchor Inn", "Lake Hotel", "Old Mill", "Corner Bakery", "Harbour Café", "Garden School"),
    projects=("Roof", "Well", "Hall", "Bridge", "Orchard", "Harbour", "Tower", "Library"),
    pieces="{} pieces",
    partners="{} partners",
    decimal_mark=".",
)

GERMAN = Texts(
    entries={
        "quantity": "Menge {}",
        "price": "Preis {}",
        "delivery": "Lieferung {}",
        "invoice": "Rechnung {}",
        "customer": "Kunde {}",
        "group": "Rabattgruppe {}",
        "revenue": "Umsatz {}",
        "wages": "Löhne {}",
        "rent": "Miete {}",
        "costs": "Kosten {}",
        "partners": "Partner {}",
    },
    questions={
        "order": "Eine Bestellung {article} geht nach {town}. Was kostet sie insgesamt? "
        "Der Preis gilt je Stück, die Lieferung wird einmal bezahlt.",
        "discount": "Der Kunde {customer} bezahlt die Rechnung {number} abzüglich des Rabatts seiner "
        "Rabattgruppe. Wie viel ist zu zahlen?",
        "balance": "Was bleibt vom Umsatz der Filiale {town} nach Löhnen und Miete?",
        "shares": "Die Kosten des Projekts {project} werden zu gleichen Teilen auf die Partner verteilt. "
        "Wie viel zahlt jeder von ihnen?",
    },
    frame="{question}\nDas Kassenbuch hat die Einträge {names} und weitere, auf die sie verweisen. Lies Einträge "
    "mit `lookup`, rechne mit `calculator` und gib den Betrag in EUR mit `submit` ab.",
    towns=("Köln", "Lübeck", "Leipzig", "Fürth", "Trier", "Görlitz", "Emden", "Ulm"),
    articles=("Kaffee", "Kerzen", "Lampen", "Decken", "Becher", "Seile", "Papier", "Seife"),
    customers=("Gasthof Anker", "Hotel Seeblick", "Alte Mühle", "Bäckerei am Eck", "Café Süd", "Waldschule"),
    projects=("Dach", "Brunnen", "Halle", "Brücke", "Obstgarten", "Hafen", "Turm", "Bücherei"),
    pieces="{} Stück",
    partners="{} Partner",
    decimal_mark=",",
)

LANGUAGES = {"de": GERMAN, "en": ENGLISH}
