"""Tables as Spark's tests make them, and a look at their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

from lakelog.sdk.tables.table import Table

MakeTable = Callable[..., Table]


def stored_files(table: Table) -> set[str]:
    """Paths inside the table of all files there are, live or not."""
    root = Path(unquote(table.location.removeprefix("file://")))
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def live_files(table: Table) -> set[str]:
    """Paths of the live files."""
    return set(table.files().column("path").to_pylist())
