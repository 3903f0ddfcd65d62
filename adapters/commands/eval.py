"""Let any OpenAI-compatible model play rows, here or on any server, and say what it earned."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from yarl import URL

from ...servers.catalog import Served
from ...servers.cli import INTERRUPTED_EXIT
from ...servers.commands.options import environment_names, errors, read_served, split_names, stop
from ...servers.types import Json
from ..calls import read_json
from ..connect import connect
from ..evaluation.compare import compare, read_run
from ..evaluation.dialogue import NATIVE, PARSERS
from ..evaluation.episode import Seat
from ..evaluation.model import ChatModel, Patience, Sampling
from ..evaluation.plan import Wanted
from ..evaluation.report import write_report
from ..evaluation.results import SUMMARY, Folder, StorageFull
from ..evaluation.run import Run, State, Stopped, mark
from ..evaluation.terminal import print_comparison, print_summary
from ..evaluation.work import INTERRUPTED, Work
from ..foreign import McpOptions, OpenEnvOptions
from ..resolve import WIRES, is_url
from ..session import WrongRequest
from . import foreign_options as strangers
from .endpoint_url import endpoint_url

MASKED_EXIT = 3
#: So many repeats are more than anybody plays, and few enough to count.
MOST_REPEATS = 1_000_000
ROWS, ASKING, RESULTS = "Rows", "How the model is asked", "Results"


def eval_(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="ENV|URL",
            help="The URL of a server; or an installed environment or package.module:Class, run in this process.",
            autocompletion=environment_names,
        ),
    ],
    model: Annotated[str, typer.Option("--model", "-m", help="The model's name, as its endpoint knows it.")],
    base_url: Annotated[
        str | None,
        typer.Option(help="Where the endpoint is, with its /v1 (https://api.openai.com/v1).", envvar="OPENAI_BASE_URL"),
    ] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(help="The variable that holds the key; default OPENAI_API_KEY, if that is set."),
    ] = None,
    wire: Annotated[
        str | None, typer.Option(help="nemo-gym, openenv, mcp or local.", autocompletion=lambda: list(WIRES))
    ] = None,
    env: Annotated[str | None, typer.Option(help="Which environment, where the URL serves several.")] = None,
    token: Annotated[str | None, typer.Option(help="The server's bearer token.", envvar="GYMWIRE_TOKEN")] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Which split; default the first.", autocompletion=split_names, rich_help_panel=ROWS),
    ] = None,
    rows: Annotated[
        Path | None, typer.Option(help="Play the rows of this JSONL file.", metavar="FILE", rich_help_panel=ROWS)
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--count",
            help="Play the first COUNT rows; default all.",
            min=1,
            metavar="COUNT",
            rich_help_panel=ROWS,
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(
            "-k", "--repeats", help="Play each row so many times.", min=1, max=MOST_REPEATS, rich_help_panel=ROWS
        ),
    ] = 1,
    by: Annotated[
        str | None,
        typer.Option(
            help="Group the results by this column of the rows' data, a.b for one inside of a.",
            metavar="COLUMN",
            rich_help_panel=ROWS,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A constructor argument of an environment in this process.",
            metavar="KEY=VALUE",
            rich_help_panel=ROWS,
        ),
    ] = None,
    concurrency: Annotated[
        int,
        typer.Option("--concurrency", "-c", help="Episodes that are played at once.", min=1, rich_help_panel=ASKING),
    ] = 8,
    tool_parser: Annotated[
        str,
        typer.Option(
            help="none: the endpoint's native tool calls. auto, hermes or xml: the tools are described in the system "
            "prompt, and calls are read from the text.",
            autocompletion=lambda: [NATIVE, *PARSERS],
            rich_help_panel=ASKING,
        ),
    ] = NATIVE,
    stream: Annotated[
        bool, typer.Option("--stream/--no-stream", help="Ask for answers as a stream.", rich_help_panel=ASKING)
    ] = True,
    temperature: Annotated[
        float | None, typer.Option(help="Sampling temperature; default the endpoint's.", min=0, rich_help_panel=ASKING)
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Nucleus sampling; default the endpoint's.", min=0, max=1, rich_help_panel=ASKING),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            help="Tokens of one turn; a turn that needs more cuts its episode.", min=1, rich_help_panel=ASKING
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Sampling seed: each row, repeat and turn draws a seed of its own from it.",
            min=0,
            rich_help_panel=ASKING,
        ),
    ] = None,
    stop_at: Annotated[
        list[str] | None,
        typer.Option("--stop", help="A text at which a turn ends; repeatable.", rich_help_panel=ASKING),
    ] = None,
    extra_body: Annotated[
        str | None,
        typer.Option(help="More fields of every request, a JSON object.", metavar="JSON", rich_help_panel=ASKING),
    ] = None,
    max_turns: Annotated[
        int | None,
        typer.Option(
            help="Turns of an episode; default and at most the environment's own, else 100.",
            min=1,
            rich_help_panel=ASKING,
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds that one answer of the model may take.", min=0.001, rich_help_panel=ASKING)
    ] = 600.0,
    retries: Annotated[
        int,
        typer.Option(
            help="Repeats of a request after 429, 5xx, time-outs and broken connections.", min=0, rich_help_panel=ASKING
        ),
    ] = 5,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Keep results, summary and report here; an earlier run there goes on.",
            metavar="DIR",
            rich_help_panel=RESULTS,
        ),
    ] = None,
    messages: Annotated[
        bool,
        typer.Option("--messages/--no-messages", help="Keep the dialogues in results.jsonl.", rich_help_panel=RESULTS),
    ] = True,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed", help="Play the masked episodes of an earlier run again.", rich_help_panel=RESULTS
        ),
    ] = False,
    compare_with: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            help="Another run's --out or results.jsonl, to compare with.",
            metavar="RUN",
            rich_help_panel=RESULTS,
        ),
    ] = None,
    solved: Annotated[
        float, typer.Option(help="The reward from which an episode counts for pass@k.", rich_help_panel=RESULTS)
    ] = 1.0,
    max_failed: Annotated[
        float,
        typer.Option(
            help="The share of masked episodes above which the exit status is 3.", min=0, max=1, rich_help_panel=RESULTS
        ),
    ] = 0.1,
    fail_under: Annotated[
        float | None,
        typer.Option(
            help="The mean reward below which the exit status is 1.", metavar="REWARD", rich_help_panel=RESULTS
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON and nothing else.", rich_help_panel=RESULTS)
    ] = False,
    reset_field: strangers.ResetField = [],  # noqa: B006
    reward: strangers.Reward = "last",
    state_tool: strangers.StateTool = "",
    state_arg: strangers.StateArg = "",
    reward_tool: strangers.RewardTool = "",
) -> None:
    """Let any OpenAI-compatible model play rows, here or on any server, and say what it earned.

    Exit status: 0 when all went well, 1 for --fail-under, 2 for a wrong call or
    an endpoint that refuses, 3 when too many episodes were masked
    (--max-failed), 130 when it was interrupted.
    """
    if wire is not None:
        strangers.check_options_of(context, wire)
    options = McpOptions(state_tool, state_arg, tuple(reset_field), reward_tool)
    stranger = _strangers(wire, options, OpenEnvOptions(reward=reward, reset_fields=tuple(reset_field)))
    if tool_parser not in (NATIVE, *PARSERS):
        stop(f"there is no tool parser {tool_parser!r}; there are: {', '.join((NATIVE, *PARSERS))}")
    served = _served(target, wire, settings or (), rows)
    if not (isfinite(solved) and isfinite(temperature or 0.0)):
        stop("--solved and --temperature are finite numbers")
    sampling = Sampling(temperature, top_p, max_tokens, tuple(stop_at or ()), _object(extra_body))
    chat = ChatModel(
        model, _url(base_url), key=_key(api_key_env), sampling=sampling,
        patience=Patience(timeout, retries), stream=stream,
    )  # fmt: skip
    folder = Folder(out) if out else None
    try:
        connection = connect(served or target, wire=wire, env=env, token=token, **stranger)
        work = Work(
            target, served, Seat(connection, chat, tool_parser, max_turns, seed, messages),
            Wanted(split, rows, count, repeats, by), concurrency, folder, retry_failed, solved, as_json,
            scored=bool(reward_tool),
        )  # fmt: skip
        other = read_run(compare_with) if compare_with else None
        run, state = asyncio.run(work.run())
        summary = run.summary()
        if other is not None:
            summary["comparison"] = compare((f"{model} (this run)", run.results()), other)
        _show(summary, as_json=as_json)
        if folder is not None:
            _write(folder, run, state, summary)
    except WrongRequest as error:
        stop(str(error))
    except StorageFull as error:
        stop(f"{error}; what was finished before is kept, and the same command goes on", 1)
    except Stopped as error:
        stop(f"{error}{_goes_on(out)}")
    except KeyboardInterrupt:
        stop(INTERRUPTED + _goes_on(out), INTERRUPTED_EXIT)
    finally:
        if folder is not None:
            folder.close()
    if state is State.STOPPED:
        stop(INTERRUPTED + _goes_on(out), INTERRUPTED_EXIT)
    raise typer.Exit(_status(summary, max_failed, fail_under))


def _served(target: str, wire: str | None, settings: Sequence[str], rows: Path | None) -> Served | None:
    """The environment in this process, if it is one."""
    if is_url(target):
        return None
    if wire not in (None, "local") or " " in target:
        stop(
            f"{target!r} is no URL; start the server and give its URL, or serve a command that speaks MCP on every "
            "wire: gymwire bridge 'COMMAND' --from mcp"
        )
    return read_served([target], settings, [str(rows)] if rows else ())[0]


def _write(folder: Folder, run: Run, state: State, summary: Json) -> None:
    """The last word of the manifest, the summary, and the page."""
    mark(folder, run, state, INTERRUPTED if state is State.STOPPED else "")
    folder.write_json(SUMMARY, summary)
    write_report(folder, summary)


def _strangers(wire: str | None, mcp: McpOptions, openenv: OpenEnvOptions) -> dict[str, Any]:
    """Only what was said: servers of gymwire's own refuse these."""
    said = {"mcp": mcp, "openenv": openenv}
    return {name: options for name, options in said.items() if options != type(options)() and wire in (None, name)}


def _url(text: str | None) -> URL:
    if not text:
        stop("say where the model is: --base-url or OPENAI_BASE_URL (OpenAI's own is https://api.openai.com/v1)")
    return endpoint_url(text, "--api-key-env")


def _key(variable: str | None) -> str | None:
    key = os.environ.get(variable or "OPENAI_API_KEY", "").strip() or None
    if variable and key is None:
        stop(f"--api-key-env: the variable {variable} is not set")
    if key and not key.isprintable():
        stop(f"the key in {variable or 'OPENAI_API_KEY'} holds a line break or another control character")
    return key


def _object(text: str | None) -> Mapping[str, Any]:
    try:
        value = read_json(text or "{}")
    except ValueError as error:
        stop(f"--extra-body is no JSON: {error}")
    if not isinstance(value, dict):
        stop("--extra-body is a JSON object, such as '{\"top_k\": 20}'")
    return value


def _show(summary: Json, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(summary, indent=1, ensure_ascii=False))
        return
    console = Console(highlight=False, emoji=False, soft_wrap=True)
    print_summary(console, summary)
    if "comparison" in summary:
        print_comparison(console, summary["comparison"])
    if summary["calls_as_text"]:
        errors.print(
            f"gymwire: {summary['calls_as_text']} episodes hold <tool_call> as text: the endpoint does not read this "
            "model's calls; --tool-parser auto does",
            markup=False,
        )


def _goes_on(out: Path | None) -> str:
    return f"; the same command goes on from what is in {out}" if out else ""


def _status(summary: Json, max_failed: float, fail_under: float | None) -> int:
    if summary["masked_share"] > max_failed:
        errors.print(f"gymwire: {summary['masked_share']:.1%} of the episodes are masked", markup=False)
        return MASKED_EXIT
    mean = summary["reward"]["mean"]
    if fail_under is None or (mean is not None and mean >= fail_under):
        return 0
    said = "no episode was scored" if mean is None else f"the mean reward is {mean:.4g}"  # NaN does not pass either
    errors.print(f"gymwire: {said}; --fail-under {fail_under:g}", markup=False)
    return 1
