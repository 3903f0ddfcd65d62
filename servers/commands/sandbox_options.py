"""The options by which commands choose a sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..sandbox.select import BACKENDS

SANDBOX = "The sandbox"

Backend = Annotated[
    str,
    typer.Option(
        "--sandbox",
        envvar="GYMWIRE_SANDBOX",
        metavar="BACKEND",
        autocompletion=lambda: list(BACKENDS),
        help=f"Where programs run, for environments that run some: {', '.join(BACKENDS)}. Default: docker where an "
        "engine answers, else bubblewrap.",
        rich_help_panel=SANDBOX,
    ),
]
Image = Annotated[
    str,
    typer.Option(
        "--sandbox-image",
        envvar="GYMWIRE_SANDBOX_IMAGE",
        help="The docker backend's image; any with Python 3.8 or later.",
        rich_help_panel=SANDBOX,
    ),
]
Slots = Annotated[
    int,
    typer.Option(
        "--sandbox-slots",
        envvar="GYMWIRE_SANDBOX_SLOTS",
        metavar="N",
        help="Programs at once, at least two; 0: one for each processor, at least two.",
        min=0,
        rich_help_panel=SANDBOX,
    ),
]
Url = Annotated[
    str,
    typer.Option(
        "--sandbox-url",
        envvar="GYMWIRE_SANDBOX_URL",
        help="Use the sandbox of a `gymwire sandbox serve` at this URL.",
        rich_help_panel=SANDBOX,
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--sandbox-token-file",
        envvar="GYMWIRE_SANDBOX_TOKEN_FILE",
        help="The token for --sandbox-url, on the file's first line.",
        rich_help_panel=SANDBOX,
    ),
]
Unsafe = Annotated[
    bool,
    typer.Option(
        "--allow-unsafe-sandbox",
        help="Permit the subprocess backend: limits, but no isolation at all.",
        rich_help_panel=SANDBOX,
    ),
]
