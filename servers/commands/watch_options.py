"""The options by which servers say what they do: their log, and their traces."""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from .. import logs
from .options import stop

if TYPE_CHECKING:
    from ..tracing import Tracing

TELLS = "What it says of itself"

LogFormat = Annotated[
    logs.LogFormat,
    typer.Option(
        envvar="GYMWIRE_LOG_FORMAT",
        help="Lines of text, or one JSON object a line with its session's ids.",
        rich_help_panel=TELLS,
    ),
]
Otel = Annotated[
    bool,
    typer.Option(
        "--otel",
        help="Send OpenTelemetry spans of seeds, calls and verifies. Default: where OTEL_EXPORTER_OTLP_ENDPOINT says "
        "where to.",
        rich_help_panel=TELLS,
    ),
]
#: Either names a collector, and so asks for spans.
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
EXPORTER = "opentelemetry.exporter.otlp.proto.http"


def begin(form: logs.LogFormat, otel: bool) -> Tracing | None:
    """Set the log up, and tracing where it is asked for. Ends the command where --otel cannot be had."""
    asked = otel or any(os.environ.get(name) for name in ENDPOINTS)
    if not asked or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        logs.configure(form)
        return None
    if not _installed():
        logs.configure(form)
        if otel:
            stop("--otel needs OpenTelemetry: pip install 'gymwire[otel]'")
        logging.getLogger("gymwire.serve").warning("no traces are sent: pip install 'gymwire[otel]'")
        return None
    from ..tracing import Tracing

    logs.configure(form, Tracing.ids)
    return Tracing.exporting()


def _installed() -> bool:
    try:
        return find_spec(EXPORTER) is not None
    except ModuleNotFoundError:
        return False
