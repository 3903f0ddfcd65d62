"""HAProxy in front of several servers: the text of its configuration.

`python -m gymwire.servers.gateway --bind 127.0.0.1:8200 a=10.0.0.1:8200 b=unix@/run/b.sock` prints it. Requests of one
session go to the server that has it: its handle is seen in NeMo Gym's cookie (`gymwire_ENV`), in MCP's session header
or a body's argument, and an OpenEnv socket stays where it was opened.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

#: From this line on, rules that find a session and send it to its server; compose/haproxy.cfg has the same.
RULES = "    # A request may be made anew where it cannot act twice"
TEMPLATE = Path(__file__).with_suffix(".cfg")


class Gateway(StrEnum):
    """What is in front of several servers, by where it looks for a session's handle to send a request to its server."""

    NONE = "none"
    HEADERS = "headers"  # cookies and headers
    BODIES = "bodies"  # and an argument in MCP's bodies, as this one does

    def finds(self, handle_in: Gateway) -> bool:
        """Whether it sees a handle there; one that is in NONE of these places is seen by nobody."""
        return handle_in is not Gateway.NONE and self in (handle_in, Gateway.BODIES)


def config(bind: str, servers: Mapping[str, str]) -> str:
    """HAProxy's configuration (2.6 and later): `bind` as HAProxy writes it, addresses of servers by name.

    It holds as many connections as the limit of open files lets it.
    """
    lines = "\n".join(f"    server {name} {address}" for name, address in servers.items())
    return TEMPLATE.read_text(encoding="utf-8").replace("@BIND@", bind).replace("@SERVERS@", lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m gymwire.servers.gateway", description="HAProxy's configuration.")
    parser.add_argument("--bind", default="127.0.0.1:8200", help="address to listen on, as HAProxy writes it")
    parser.add_argument("servers", nargs="+", metavar="NAME=ADDRESS", help="where the servers are")
    arguments = parser.parse_args()
    print(config(arguments.bind, dict(item.split("=", 1) for item in arguments.servers)), end="")


if __name__ == "__main__":
    main()
