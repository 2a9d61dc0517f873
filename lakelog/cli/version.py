"""Which lakelog this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """The version of the installed distribution; `unknown` when run from a tree that was never installed."""
    try:
        return version("lakelog")
    except PackageNotFoundError:
        return "unknown"
