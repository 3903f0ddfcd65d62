"""HAProxy in front of several servers: the text of its configuration.

`python -m gymwire.servers.gateway --bind 127.0.0.1:8200 a=10.0.0.1:8200 b=unix@/run/b.sock` prints it. Requests of one
session go to the server that has it: its handle is seen in NeMo Gym's cookie (`gymwire_ENV`), in MCP's session header,
and an OpenEnv socket stays where it was opened. What carries the handle in a body alone goes anywhere, which is why
only sessions that every server can continue may be used that way.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

#: Finds the session in a request or an answer. The first rule that finds one decides; shared with compose/haproxy.cfg.
STICKY = r"""
    stick-table type string len 128 size 1m expire 2h
    stick match hdr(x-gymwire-session)
    stick match req.fhdr(cookie),regsub(^.*gymwire_[^=]*=,),field(1,;) if { req.fhdr(cookie) -m sub gymwire_ }
    stick store-request hdr(x-gymwire-session) if { hdr(x-gymwire-session) -m found }
    stick store-response res.fhdr(set-cookie),field(1,;),field(2,=) if { res.fhdr(set-cookie) -m beg gymwire_ }
""".strip("\n")

_CONFIG = """\
global
    maxconn {connections}
defaults
    mode http
    timeout connect 5s
    timeout client 90s
    timeout server 180s
    timeout tunnel 2h
    timeout http-keep-alive 75s
    # Only what no server has seen is sent to another one: a call must not run twice.
    retries 3
    option redispatch 1
    retry-on conn-failure
    # A client that reuses a connection must not hear of one that a server has closed.
    option http-keep-alive
    http-reuse safe
frontend gymwire
    bind {bind}
    default_backend servers
backend servers
    balance leastconn
    option httpchk GET /health
    default-server check inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
{sticky}
{servers}
"""


def config(bind: str, servers: Mapping[str, str], *, connections: int = 16_384) -> str:
    """HAProxy's configuration (2.6 and later): `bind` as HAProxy writes it, addresses of servers by name."""
    lines = "\n".join(f"    server {name} {address}" for name, address in servers.items())
    return _CONFIG.format(bind=bind, servers=lines, sticky=STICKY, connections=connections)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m gymwire.servers.gateway", description="HAProxy's configuration.")
    parser.add_argument("--bind", default="127.0.0.1:8200", help="address to listen on, as HAProxy writes it")
    parser.add_argument("servers", nargs="+", metavar="NAME=ADDRESS", help="where the servers are")
    arguments = parser.parse_args()
    print(config(arguments.bind, dict(item.split("=", 1) for item in arguments.servers)), end="")


if __name__ == "__main__":
    main()
