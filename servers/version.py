"""Which gymwire this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def package_version() -> str:
    try:
        return version("gymwire")
    except PackageNotFoundError:
        return "unknown"
