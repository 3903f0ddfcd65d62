"""Play an episode in the terminal: prompt, tools, calls, verdict."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ...servers.commands.options import environment_names, split_names, stop
from ...servers.types import Ending, Message, Outcome, Tool, ToolResult, text_of
from ..calls import BadToolCall, call_for_history, read_arguments, result_for_history
from ..connect import Connection, connect
from ..resolve import WIRES
from ..session import Session, SessionFailed, WrongRequest

T = TypeVar("T")
HELP = """\
TOOL key=value ...     call a tool: add_item sku=apple
TOOL {"key": value}    the same, as JSON: add_item {"sku": "apple"}
tools, prompt          show the tools or the task again
done [ANSWER]          end with a final answer, and see the verdict
quit                   leave without a verdict"""
COMMANDS = ("help", "tools", "prompt", "done", "quit")
MASKED_EXIT = 1


def play(
    target: Annotated[
        str,
        typer.Argument(
            metavar="ENV|URL",
            help="An installed environment or package.module:Class, played in this process; or the URL of a server.",
            autocompletion=environment_names,
        ),
    ],
    wire: Annotated[
        str | None, typer.Option(help="nemo-gym, openenv, mcp or local.", autocompletion=lambda: list(WIRES))
    ] = None,
    env: Annotated[str | None, typer.Option(help="Which environment, where the URL serves several.")] = None,
    row: Annotated[int | None, typer.Option(help="Which row of the split.", min=0)] = None,
    split: Annotated[
        str | None, typer.Option(help="Which split; default the first.", autocompletion=split_names)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Chooses the row where none is named.", min=0)] = None,
    token: Annotated[str | None, typer.Option(help="The server's bearer token.", envvar="GYMWIRE_TOKEN")] = None,
) -> None:
    """Play an episode in the terminal: prompt, tools, calls, verdict."""
    with _loop() as loop:
        try:
            connection = loop.run(_open(target, wire, env, token))
            try:
                session = loop.run(connection.session(split=split, index=row, seed=seed).start())
                status = Player(session, loop).play()
            finally:
                loop.run(connection.close())
        except WrongRequest as error:
            stop(str(error))
        except SessionFailed as failure:
            _console.print(_masked(failure))
            status = MASKED_EXIT
    raise typer.Exit(status)


async def _open(target: str, wire: str | None, env: str | None, token: str | None) -> Connection:
    if "." not in sys.path and "" not in sys.path:
        sys.path.insert(0, "")  # `package.module:Class` beside the person who plays
    return await connect(target, wire=wire, env=env, token=token, patience_s=60.0).open()


class Loop:
    """An event loop in a thread of its own: sockets stay alive while the person thinks."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def _loop() -> Iterator[Loop]:
    loop = Loop()
    try:
        yield loop
    finally:
        loop.close()


class Player:
    """One person's episode."""

    def __init__(self, session: Session, loop: Loop) -> None:
        self.session, self.loop = session, loop
        self.tools = {tool.name: tool for tool in session.tools}
        self.messages: list[Message] = []
        self.turns = 0

    def play(self) -> int:
        """Until a verdict or `quit`; answers the exit status."""
        self.show_prompt()
        self.show_tools()
        _console.print(Text("\nhelp shows what you can write.", style="dim"))
        for line in _lines((*self.tools, *COMMANDS)):
            status = self.obey(line)
            if status is not None:
                return status
        _console.print(Text("left without a verdict", style="dim"))
        return 0

    def obey(self, line: str) -> int | None:
        """Do what a line says; answers the exit status when the episode is over."""
        word, _, rest = line.strip().partition(" ")
        if not word:
            return None
        if word in self.tools or word not in COMMANDS:
            return self.call(word, rest.strip())
        if word == "done":
            return self.end_turn(rest.strip())
        if word == "quit":
            _console.print(Text("left without a verdict", style="dim"))
            return 0
        {"help": self.show_help, "tools": self.show_tools, "prompt": self.show_prompt}[word]()
        return None

    # ---- acting

    def call(self, name: str, text: str) -> int | None:
        try:
            arguments = read_line(text, self.tools.get(name))
        except BadToolCall as error:
            _console.print(Text(f"{error}; nothing was sent", style="yellow"))
            return None
        result = self.loop.run(self.session.call(name, arguments))
        self._remember(name, arguments, result)
        _console.print(_shown(result))
        if self.session.done:
            return self.verify(Ending.FINISHED)
        limit = self.session.max_turns
        if limit is not None and self.turns >= limit:
            _console.print(Text(f"That was turn {self.turns} of {limit}: the episode is cut.", style="yellow"))
            return self.verify(Ending.CUT)
        return None

    def _remember(self, name: str, arguments: Mapping[str, Any], result: ToolResult) -> None:
        self.turns += 1
        call_id = f"call_{self.turns}"
        call = call_for_history(name, arguments, call_id)
        self.messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        self.messages.append(result_for_history(result, call_id))

    def end_turn(self, answer: str) -> int | None:
        self.turns += 1
        self.messages.append({"role": "assistant", "content": answer})
        prompt = self.loop.run(self.session.end_turn(answer))
        if prompt is None:
            return self.verify(Ending.FINISHED)
        self.messages.append({"role": "user", "content": prompt})
        _console.print(Panel(Text(prompt), title="next", title_align="left"))
        return None

    def verify(self, ending: Ending) -> int:
        try:
            outcome = self.loop.run(self.session.verify(self.messages, ending=ending))
        except SessionFailed as failure:
            _console.print(_masked(failure))
            return MASKED_EXIT
        _console.print(_verdict(outcome))
        return 0

    # ---- showing

    def show_help(self) -> None:
        _console.print(Text(HELP))

    def show_prompt(self) -> None:
        for message in self.session.prompt:
            title = str(message.get("role") or message.get("type") or "")
            _console.print(Panel(Text(text_of(message.get("content"))), title=title, title_align="left"))

    def show_tools(self) -> None:
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for tool in self.session.tools:
            table.add_row(Text(tool.name, style="bold"), Text(signature(tool)), Text(tool.description))
        _console.print(table)


_console = Console(highlight=False)


def signature(tool: Tool) -> str:
    """A tool's parameters, the optional ones in brackets."""
    required = tool.parameters.get("required") or ()
    shown = []
    for name, schema in (tool.parameters.get("properties") or {}).items():
        text = f"{name}={_kind(schema)}"
        shown.append(text if name in required else f"[{text}]")
    return " ".join(shown)


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "|".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return "|".join(_kind(item) for item in schema["anyOf"])
    if schema.get("type") == "array":
        return f"[{_kind(schema.get('items') or {})}, ...]"
    return str(schema.get("type") or "value")


def read_line(text: str, tool: Tool | None) -> dict[str, Any]:
    """Arguments as a person writes them: JSON, `key=value` pairs, or the one value of a tool with one parameter."""
    if not text or text.startswith("{"):
        return read_arguments(text)
    properties = (tool.parameters.get("properties") or {}) if tool else {}
    if len(properties) == 1 and "=" not in text.split(" ", 1)[0]:
        name = next(iter(properties))
        return {name: read_value(text, properties[name])}
    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise BadToolCall(f"{error}") from None
    arguments: dict[str, Any] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals:
            raise BadToolCall(f"{part!r} is no key=value")
        arguments[name] = read_value(value, properties.get(name) or {})
    return arguments


def read_value(text: str, schema: Mapping[str, Any]) -> Any:
    """A value: text where the tool wants text, else JSON, else text."""
    kinds = {item.get("type") for item in schema.get("anyOf") or (schema,)}
    if kinds <= {"string", "null"} and "string" in kinds:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _shown(result: ToolResult) -> Text:
    style = "red" if result.is_error else "green"
    return Text(result.plain() or "(no text)", style=style)


def _verdict(outcome: Outcome) -> Panel:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_row("reward", f"{outcome.reward:g}")
    table.add_row("ending", outcome.ending.value)
    for name, value in outcome.components.items():
        table.add_row(Text(name), f"{value:g}")
    for sentence in outcome.disagreements:
        table.add_row("note", Text(sentence))
    return Panel(table, title="verdict", title_align="left")


def _masked(failure: SessionFailed) -> Panel:
    text = f"{failure.kind} at {failure.stage}: {failure.reason}\nNo reward exists; a trainer would mask this episode."
    return Panel(Text(text), title="failed on our side", title_align="left", border_style="red")


def _lines(words: tuple[str, ...]) -> Iterator[str]:
    """The person's lines; a pipe's are echoed, so that its output can be read."""
    asked_at_terminal = sys.stdin.isatty()
    if asked_at_terminal:
        _complete(words)
    while True:
        try:
            line = input("> " if asked_at_terminal else "")
        except (EOFError, KeyboardInterrupt):
            _console.print()
            return
        if not asked_at_terminal:
            _console.print(Text(f"> {line}", style="dim"))
        yield line


def _complete(words: tuple[str, ...]) -> None:
    """Tab completes names of tools and commands, where the terminal has readline."""
    try:
        import readline
    except ImportError:
        return

    def complete(text: str, state: int) -> str | None:
        found = [f"{word} " for word in words if word.startswith(text)]
        return found[state] if state < len(found) and readline.get_begidx() == 0 else None

    readline.set_completer(complete)
    readline.set_completer_delims(" ")
    readline.parse_and_bind("tab: complete")
