"""The options by which commands choose a sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..sandbox.select import BACKENDS

Backend = Annotated[
    str,
    typer.Option(
        "--sandbox",
        envvar="GYMWIRE_SANDBOX",
        metavar="|".join(BACKENDS),
        help="Where programs run, for environments that run some. Default: docker where an engine answers, "
        "else bubblewrap.",
    ),
]
Image = Annotated[
    str,
    typer.Option(
        "--sandbox-image",
        envvar="GYMWIRE_SANDBOX_IMAGE",
        help="The docker backend's image; any with Python 3.8 or later.",
    ),
]
Slots = Annotated[
    int,
    typer.Option(
        "--sandbox-slots",
        envvar="GYMWIRE_SANDBOX_SLOTS",
        help="Programs at once, at least two; 0: one for each processor, at least two.",
        min=0,
    ),
]
Url = Annotated[
    str,
    typer.Option(
        "--sandbox-url", envvar="GYMWIRE_SANDBOX_URL", help="Use the sandbox of a `gymwire sandbox serve` at this URL."
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--sandbox-token-file",
        envvar="GYMWIRE_SANDBOX_TOKEN_FILE",
        help="The token for --sandbox-url, on the file's first line.",
    ),
]
Unsafe = Annotated[
    bool,
    typer.Option("--allow-unsafe-sandbox", help="Permit the subprocess backend: limits, but no isolation at all."),
]
