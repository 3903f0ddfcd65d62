"""What an author may write, and what is refused when the class is defined."""

from __future__ import annotations

from typing import Any

import pytest
from gymwire.servers import DefinitionError, Environment, Outcome, Row, Tool, Transcript, tool
from gymwire.servers.answers import Code
from gymwire.servers.environment import RESERVED_NAMES, snake_case
from gymwire.servers.types import Ending

from tests.servers.engine import Engine, Notes, call


def names(environment: type[Environment]) -> list[str]:
    return list(environment.tool_specs)


def test_the_name_is_the_class_name_in_snake_case_or_what_the_class_says() -> None:
    assert [snake_case(name) for name in ("Counter", "HTTPShop", "MyEnv2Go")] == ["counter", "http_shop", "my_env2_go"]
    assert Notes.name == "notes"
    assert type("Other", (Notes,), {"name": "shop-2.0"}).name == "shop-2.0"
    assert type("Derived", (Notes,), {}).name == "derived"


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a b", "ü", "a" * 100, ".hidden"])
def test_a_name_that_is_no_step_of_a_url_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError, match="must match"):
        type("Bad", (Environment,), {"name": name})


def test_tools_keep_their_order_and_are_inherited() -> None:
    class Base(Environment):
        @tool
        def second(self) -> str: ...  # type: ignore[empty-body]

        @tool(name="first-of_all")
        def other(self) -> str: ...  # type: ignore[empty-body]

        def plain(self) -> str: ...  # type: ignore[empty-body]

    class Derived(Base):
        @tool
        def third(self) -> str: ...  # type: ignore[empty-body]

        def second(self) -> str:  # without the mark: no tool any more
            return ""

    assert names(Base) == ["second", "first-of_all"]
    assert names(Derived) == ["first-of_all", "third"]


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_the_name_of_a_route_or_control_call_is_refused(name: str) -> None:
    def function(self: Any) -> str:
        return ""

    with pytest.raises(DefinitionError, match="may not be called"):
        type("Bad", (Environment,), {"x": tool(name=name)(function)})


@pytest.mark.parametrize("name", ["a b", "ä", "1st", "x" * 65, "a/b", "a.b"])
def test_a_name_that_some_wire_cannot_carry_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError):
        type("Bad", (Environment,), {"x": tool(name=name)(lambda self: "")})


def test_two_tools_of_one_name_are_refused() -> None:
    def note(text: str) -> str:
        return ""

    with pytest.raises(DefinitionError, match="two tools"):
        type("Bad", (Notes,), {"tools": [note]})


def test_marks_that_make_no_sense_are_refused() -> None:
    def unhinted(self, x):  # type: ignore[no-untyped-def]
        return ""

    def fine(self: Any) -> str:
        return ""

    bad: dict[str, Any] = {
        "a hint is missing": tool(unhinted),
        "an unknown blame": tool(timeout="nobody")(fine),  # type: ignore[arg-type]  # pyright: ignore
        "a limit of nothing": tool(timeout_s=0)(fine),
        "a negative limit": tool(timeout_s=-1)(fine),
        "a static method": tool(staticmethod(fine)),
        "a class method": tool(classmethod(fine)),
    }
    for why, marked in bad.items():
        with pytest.raises(DefinitionError):
            type("Bad", (Environment,), {"bad": marked})
            raise AssertionError(why)


def test_what_is_wrong_with_a_tool_is_said_with_its_class() -> None:
    def unhinted(self, x):  # type: ignore[no-untyped-def]
        return ""

    def selfless() -> str:
        return ""

    for marked, said in ((unhinted, "Bad: tool unhinted: parameter 'x'"), (selfless, "Bad.selfless: .* is self")):
        with pytest.raises(DefinitionError, match=said):
            type("Bad", (Environment,), {"bad": tool(marked)})


@pytest.mark.parametrize("turns", [0, -1, "8", 2.5])
def test_a_limit_of_turns_is_a_whole_number(turns: Any) -> None:
    with pytest.raises(DefinitionError, match="max_turns"):
        type("Bad", (Environment,), {"max_turns": turns})


def test_marks_are_kept() -> None:
    class Marked(Environment):
        @tool(ends=True, timeout="policy", timeout_s=3)
        async def finish(self) -> str:
            """End it."""
            return ""

    spec = Marked.tool_specs["finish"]
    assert (spec.ends, spec.timeout_blame, spec.timeout_s, spec.is_async) == (True, "policy", 3, True)
    assert spec.tool.description == "End it."


# Tools per row


class PerRow(Notes):
    @tool
    def extra(self) -> str:
        return "extra"

    def tools_for(self, row: Row) -> Any:
        if row.data.get("odd"):
            return row.data["odd"]
        offered: list[str | Tool] = ["note"]
        if row.data.get("extra"):
            offered.append(Tool("extra", "Re-described.", {"type": "object", "properties": {}}))
        return offered


async def test_a_row_offers_what_tools_for_names(engine: Engine) -> None:
    few = await engine.start(PerRow, Row.of("x"))
    more = await engine.start(PerRow, Row.of("x", extra=True))
    assert [tool.name for tool in few.tools] == ["note"]
    assert [tool.description for tool in more.tools] == ["Write a note.", "Re-described."]
    answer = await call(few, "extra")
    assert answer.code is Code.UNKNOWN_TOOL and "extra" not in answer.result.text.partition("The tools are")[2]
    assert (await call(more, "extra")).result.text == "extra"


async def test_a_row_may_pin_fewer_tools_but_never_more(engine: Engine) -> None:
    pinned = tuple(Tool(name, "", {}) for name in ("extra", "unheard_of"))
    session = await engine.start(PerRow, Row(tools=pinned, data={"extra": True}))
    assert [tool.name for tool in session.tools] == ["extra"]
    assert (await call(session, "note", text="x")).code is Code.UNKNOWN_TOOL
    assert (await engine.start(PerRow, Row(tools=()))).tools == ()


@pytest.mark.parametrize("odd", [["unheard_of"], 5, [None]])
async def test_a_tools_for_that_answers_nonsense_fails_the_seed(engine: Engine, odd: Any) -> None:
    with pytest.raises(Exception, match="could not be started"):
        await engine.start(PerRow, Row.of("x", odd=odd))
    assert engine.all_free


# Reset


async def test_reset_may_add_the_last_message_of_the_prompt(engine: Engine) -> None:
    class Greets(Notes):
        async def reset(self, row: Row) -> str:  # type: ignore[override]  # pyright: ignore
            return f"Hello \ud800{row.data['name']}"

    row = Row.of("First.", name="Ann")
    session = await engine.start(Greets, row)
    assert [message["content"] for message in session.prompt] == ["First.", "Hello ?Ann"]
    assert len(row.prompt) == 1


async def test_a_reset_that_answers_something_else_fails_the_seed(engine: Engine) -> None:
    class Odd(Notes):
        def reset(self, row: Row) -> Any:
            return 5

    with pytest.raises(Exception, match="could not be started"):
        await engine.start(Odd)


# Functions


async def test_plain_functions_become_an_environment(engine: Engine) -> None:
    def double(n: int) -> int:
        """Double it."""
        return 2 * n

    async def triple(n: int) -> int:
        return 3 * n

    made = Environment.from_functions(
        [double, triple], verify=lambda transcript: float(len(transcript.calls)), name="maths", max_turns=4
    )
    assert made.name == "maths" and made.max_turns == 4 and names(made) == ["double", "triple"]
    session = await engine.start(made)
    assert (await call(session, "double", n=21)).result.text == "42"
    assert (await call(session, "triple", n=1)).result.text == "3"
    assert (await session.verify()).reward == 2.0


async def test_functions_may_be_listed_beside_methods(engine: Engine) -> None:
    def shout(text: str) -> str:
        return text.upper()

    class Both(Notes):
        tools = [shout]

    session = await engine.start(Both)
    assert (await call(session, "shout", text="x")).result.text == "X"
    assert names(Both) == ["note", "shout"]


async def test_an_async_verify_and_an_outcome_of_ones_own(engine: Engine) -> None:
    class Own(Notes):
        async def verify(self, transcript: Transcript) -> Outcome:  # type: ignore[override]  # pyright: ignore
            return Outcome(Ending.CUT, 0.5, {"a": 0.25, "b": 0.25})

    outcome = await (await engine.start(Own)).verify()
    assert outcome == Outcome(Ending.CUT, 0.5, {"a": 0.25, "b": 0.25})
