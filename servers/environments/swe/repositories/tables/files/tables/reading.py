"""Reading rows of text. A field in quotes may hold separators, line breaks, and quotes written twice."""

from .table import Table


def read(text, separator=","):
    """A table whose first row holds the names; raises ValueError with the row's number for ragged rows."""
    rows = list(_rows(text, separator))
    if not rows:
        raise ValueError("no names in the first row")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(rows[0]):
            raise ValueError(f"row {number} has {len(row)} fields instead of {len(rows[0])}")
    return Table(rows[0], rows[1:])


def _rows(text, separator):
    row, field, quoted, position = [], [], False, 0
    while position < len(text):
        sign = text[position]
        position += 1
        if quoted:
            if sign == '"' and text[position : position + 1] == '"':
                field.append('"')
                position += 1
            elif sign == '"':
                quoted = False
            else:
                field.append(sign)
        elif sign == '"' and not field:
            quoted = True
        elif sign == separator:
            row.append("".join(field))
            field = []
        elif sign == "\n":
            row.append("".join(field).rstrip("\r"))
            if row != [""]:
                yield row
            row, field = [], []
        else:
            field.append(sign)
    if field or row:
        yield [*row, "".join(field)]
