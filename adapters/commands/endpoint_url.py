"""Where a model is, as command lines say it."""

from __future__ import annotations

from yarl import URL

from ...servers.commands.options import stop


def endpoint_url(text: str, key_option: str) -> URL:
    """The URL of --base-url; ends the command where it is none, or holds a key, which `key_option` is for."""
    try:
        url = URL(text.strip())
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        stop("--base-url is no http(s) URL of an endpoint; write http://HOST:PORT/v1")
    if url.user or url.password:
        stop(f"a key does not belong into --base-url; name its variable with {key_option}")
    return url
