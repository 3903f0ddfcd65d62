"""What a URL means: a gymwire server's root, one of its environments, one of its faces, or a stranger.

gymwire servers are known by `GET /environments`, asked at each place where the root may be (a server can stand
under a path of its own behind a proxy).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import orjson
from yarl import URL

from ..servers.answers import Code
from ..servers.types import Json
from .endpoint import EnvironmentInfo
from .patience import Undelivered
from .pool import Pool, Reply
from .session import SessionFailed, WrongRequest

WIRES = ("nemo-gym", "openenv", "mcp", "local")
FACES = {"gym": "nemo-gym", "openenv": "openenv", "mcp": "mcp"}
ASK_TIMEOUT_S = 15.0
_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}


@dataclass(frozen=True, slots=True)
class Place:
    """One reading of a URL: where the root is, and what the rest of the path names."""

    root: URL
    env: str | None = None
    wire: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """One environment of a gymwire server, on one wire."""

    url: URL
    wire: str
    info: EnvironmentInfo
    limits: Json


def is_url(target: str) -> bool:
    return "://" in target


def check_wire(wire: str | None, wires: Collection[str] = WIRES) -> None:
    if wire is not None and wire not in wires:
        raise WrongRequest(f"there is no wire {wire!r}; the wires are: {', '.join(wires)}.")


def read_url(text: str) -> URL:
    """A URL as http(s), without a slash at its end. Raises `WrongRequest`."""
    try:
        url = URL(text.strip())
    except ValueError as error:
        raise WrongRequest(f"{text!r} is no URL: {error}.") from None
    if url.scheme not in _SCHEMES or not url.host:
        raise WrongRequest(f"{text!r} is no URL of a server; write http://HOST:PORT, with /ENV or a face if you like.")
    return url.with_scheme(_SCHEMES[url.scheme]).with_query(None).with_fragment(None).with_path(url.path.rstrip("/"))


async def resolve(url: URL, *, wire: str | None, env: str | None, token: str | None) -> Found | None:
    """The environment that a URL means, or None for a server that is not gymwire's. Raises `WrongRequest`."""
    async with Pool(ours=False, token=token) as pool:
        for place in places(url):
            reply = await _ask(pool, place.root)
            listing = read_listing(reply)
            if listing is not None:
                return _choose(place, listing, wire, env)
            _explain(reply, place.root, has_token=token is not None)
    return None


def places(url: URL) -> Iterator[Place]:
    """Every reading of a URL, the longest path first. Raises `WrongRequest`."""
    parts = [part for part in url.path.split("/") if part]
    if len(parts) >= 3 and parts[-2:] == ["gym", "mcp"]:
        raise WrongRequest(f"{url} is the MCP door of NeMo Gym agents; connect to .../{parts[-3]}/mcp or /gym.")
    if len(parts) >= 2 and parts[-1] in FACES:
        yield Place(_up(url, 2), parts[-2], FACES[parts[-1]])
    if parts:
        yield Place(_up(url, 1), parts[-1])
    yield Place(url)


def _up(url: URL, levels: int) -> URL:
    parts = url.path.rstrip("/").split("/")
    return url.with_path("/".join(parts[:-levels]) or "/")


async def _ask(pool: Pool, root: URL) -> Reply:
    try:
        return await pool.get(root / "environments", timeout_s=ASK_TIMEOUT_S)
    except Undelivered as error:
        raise WrongRequest(f"nothing answers at {root}: {error}; is the server running?") from None
    except SessionFailed as failure:
        raise WrongRequest(f"nothing answers at {root}: {failure.reason}.") from None


def read_listing(reply: Reply) -> Json | None:
    """What a gymwire server lists at `/environments`; None for another answer."""
    if reply.status != 200:
        return None
    try:
        value = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, dict) or not _are_limits(value.get("limits")):
        return None
    listed = value.get("environments")
    return value if isinstance(listed, list) and all(map(_is_environment, listed)) else None


def _are_limits(limits: Any) -> bool:
    return isinstance(limits, dict) and all(
        limit is None or (isinstance(limit, int | float) and limit >= 0) for limit in limits.values()
    )


def _is_environment(item: Any) -> bool:
    """Whether it is listed as gymwire lists its own; others have an `/environments`, too."""
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        return False
    tools, splits, wires = item.get("tools") or [], item.get("splits") or {}, item.get("wires")
    return (
        isinstance(tools, list)
        and all(isinstance(tool, dict) for tool in tools)
        and isinstance(splits, dict)
        and all(isinstance(count, int) for count in splits.values())
        and isinstance(wires, dict)
        and all(isinstance(path, str) for path in wires.values())
    )


def _explain(reply: Reply, root: URL, *, has_token: bool) -> None:
    """Say what keeps a gymwire server from answering; a stranger's refusal says nothing here."""
    code = reply.headers.get("X-Gymwire-Code")
    if code == Code.UNAUTHORIZED:
        how = "does not accept this token" if has_token else "asks for a token: pass token= (--token)"
        raise WrongRequest(f"the server at {root} {how}.")
    if code == Code.FORBIDDEN_HOST:
        raise WrongRequest(f"the server at {root} refuses the host name {root.host!r}: serve with --allow-host.")


def _choose(place: Place, listing: Json, wire: str | None, env: str | None) -> Found:
    name = _name(place, env)
    offered = {str(item["name"]): item for item in listing["environments"]}
    if name is None:
        if len(offered) != 1:
            names = ", ".join(offered) or "none"
            raise WrongRequest(f"{place.root} serves several environments; name one with env= (--env): {names}.")
        name = next(iter(offered))
    if name not in offered:
        raise WrongRequest(_no_such(name, place.root, offered))
    if wire is not None and place.wire is not None and wire != place.wire:
        raise WrongRequest(
            f"the URL names the {place.wire} face, but wire= (--wire) asks for {wire}; give one of the two."
        )
    chosen = wire or place.wire or "nemo-gym"
    info = EnvironmentInfo.from_json({**offered[name], "shared": listing.get("shared") is True})
    path = info.wires.get(chosen)
    if path is None:
        raise WrongRequest(f"{place.root} does not offer {name} on the wire {chosen!r}.")
    return Found(place.root.with_path(place.root.path.rstrip("/") + path), chosen, info, listing["limits"])


def _name(place: Place, env: str | None) -> str | None:
    if env is not None and place.env is not None and env != place.env:
        raise WrongRequest(
            f"the URL names the environment {place.env!r}, but env= (--env) says {env!r}; give one of the two."
        )
    return place.env or env


def _no_such(name: str, root: URL, offered: Mapping[str, Any]) -> str:
    close = get_close_matches(name, offered, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{root} serves no environment {name!r}.{hint} It serves: {', '.join(offered) or 'none'}."
