"""How every measured server but upstream nemo-gym's is run: as gymwire runs uvicorn, so that only the app differs."""

from __future__ import annotations

from typing import Any

import uvicorn


def run(app: Any, port: int) -> None:
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        ws_max_size=64 * 1024 * 1024,
        timeout_keep_alive=75,
        access_log=False,
        server_header=False,
        log_level="warning",
    )
