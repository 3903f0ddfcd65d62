"""What is wrong with row files, and what only looks so: the findings of `gymwire rows check`.

Wrong: a record that is no row, a row that the environment refuses, a prompt that stands in two of the files, a tool
that function calling takes badly. Hints: a row that stands in a file twice, a tool or an argument without a
description or with a generated title, an answer that stands in its own prompt. A prompt is the same whatever its white
space, its letters' case and its system message are. Files are read a row at a time; two digests of each row are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from .catalog import Served
from .labels import MIN_TEXT, private_values
from .row_columns import prompt_column
from .row_digests import digest, prompt_digest, row_digest
from .row_files import Problems, records
from .row_forms import Form, as_gym, form_of
from .row_reader import RowReader
from .tool_schemas import description_complaints, name_complaints, schema_complaints, title_complaints
from .types import Json, Row, RowError, Tool, text_of


class Kind(StrEnum):
    ERROR = "errors"
    REFUSED = "refused"
    SHARED = "shared prompts"
    TOOL = "tools"
    DUPLICATE = "duplicates"
    DESCRIPTION = "descriptions"
    LEAK = "label leaks"


#: The others are hints: they may be meant.
WRONG = frozenset((Kind.ERROR, Kind.REFUSED, Kind.SHARED, Kind.TOOL))


@dataclass(slots=True)
class FileCount:
    """What a file holds: rows that could be read, by the form that they were in."""

    file: str
    rows: int = 0
    forms: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Report:
    files: list[FileCount] = field(default_factory=list)
    found: dict[Kind, Problems] = field(default_factory=lambda: {kind: Problems() for kind in Kind})

    @property
    def is_wrong(self) -> bool:
        return any(self.found[kind].count for kind in WRONG)

    @property
    def has_hints(self) -> bool:
        return any(problems.count for kind, problems in self.found.items() if kind not in WRONG)


def check_files(files: Sequence[str], served: Served | None = None, column: str = "") -> Report:
    """Read the files and judge every row; `column` names the prompt column. Raises `RowError` for no file."""
    check = _Check(served, column)
    for file in files:
        check.read(file)
    return check.report()


class _Check:
    """Files one after the other. Tools are judged once, however many rows offer them."""

    def __init__(self, served: Served | None, column: str) -> None:
        self._served, self._column = served, column
        self._reader = None if served is None else served.rows.reader
        self._report = Report()
        self._rows: dict[tuple[int, bytes], str] = {}  # by file: a row may be in several files on purpose
        self._prompts: dict[bytes, tuple[int, str, bytes]] = {}
        self._tools: dict[bytes, list[tuple[Kind, str]]] = {}
        self._complaints: dict[tuple[Kind, str], tuple[str, int]] = {}

    def read(self, file: str) -> None:
        count = FileCount(file)
        self._report.files.append(count)
        for place, raw in records(file, self._report.found[Kind.ERROR]):
            try:
                gym = as_gym(raw, self._column)
                row = Row.from_json(gym)
            except (ValueError, RecursionError) as error:
                self._add(Kind.ERROR, place, error)
                continue
            count.rows += 1
            count.forms[self._form(raw)] += 1
            self._judge(place, raw, gym, row)
        if not count.rows and not self._report.found[Kind.ERROR].count:
            self._add(Kind.ERROR, file, "it has no rows")

    def _form(self, raw: Json) -> str:
        form = form_of(raw)
        return f"column `{prompt_column(raw, self._column)}`" if form is Form.COLUMNS else form.value

    def _judge(self, place: str, raw: Json, gym: Json, row: Row) -> None:
        if not row.prompt:
            self._add(Kind.ERROR, place, "the prompt is empty")
        self._look_for_twins(place, gym, row)
        for complaint in self._of_tools(row.tools or ()):
            first, count = self._complaints.get(complaint, (place, 0))
            self._complaints[complaint] = (first, count + 1)
        for path, shown in _leaks(row):
            self._add(Kind.LEAK, place, f"`{path}` stands in the prompt: {shown!r:.60}")
        if self._served is not None and self._reader is not None:
            try:
                _ask(self._served, self._reader, raw, row)
            except (ValueError, RecursionError) as error:
                self._add(Kind.REFUSED, place, error)

    def _look_for_twins(self, place: str, gym: Json, row: Row) -> None:
        number = len(self._report.files)
        content = row_digest(gym)
        first = self._rows.setdefault((number, content), place)
        if first != place:
            self._add(Kind.DUPLICATE, place, f"the same row as {first}")
        if not row.prompt:
            return
        where, first, other = self._prompts.setdefault(prompt_digest(row), (number, place, content))
        if where != number:
            self._add(Kind.SHARED, place, f"the prompt of {first}{'' if other == content else ', in another row'}")

    def _of_tools(self, tools: Sequence[Tool]) -> list[tuple[Kind, str]]:
        key = digest([tool.as_responses() for tool in tools])
        if key not in self._tools:
            self._tools[key] = list(_tool_complaints(tools))
        return self._tools[key]

    def _add(self, kind: Kind, place: str, said: object) -> None:
        self._report.found[kind].add(f"{place}: {said}")

    def report(self) -> Report:
        for (kind, said), (first, count) in self._complaints.items():
            self._add(kind, first, f"{said} (in {count:,} rows)" if count > 1 else said)
        return self._report


def _tool_complaints(tools: Sequence[Tool]) -> Iterator[tuple[Kind, str]]:
    for said in (*name_complaints(tools), *schema_complaints(tools)):
        yield Kind.TOOL, said
    for said in (*description_complaints(tools), *title_complaints(tools)):
        yield Kind.DESCRIPTION, said


def _leaks(row: Row) -> Iterable[tuple[str, str]]:
    """Columns named like an answer whose text the prompt says; short ones stand there by chance."""
    shown = ""
    for private in private_values(row):
        value = private.value
        if not (private.is_label and isinstance(value, str) and len(value) >= MIN_TEXT):
            continue
        shown = shown or "\n".join(text_of(message.get("content")) for message in row.prompt)
        if value in shown:
            yield private.path, value


def _ask(served: Served, reader: RowReader, raw: Json, row: Row) -> None:
    """Raises `RowError` where the environment would not take the row."""
    read = row if type(reader) is RowReader else reader.read(raw)
    if read.place() is None:
        served.check_data(read)
    if missing := [tool.name for tool in read.tools or () if tool.name not in served.specs]:
        raise RowError(f"the row offers the tool {missing[0]!r}, which {served.name} does not serve")
