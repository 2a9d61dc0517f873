"""Where the columns of a table come from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ColumnSource:
    """Where a table's column comes from.

    Args:
        name: Of the column or field in the source.
        formats: How dates and timestamps are written in it; empty: as the source's options say.
    """

    name: str
    formats: tuple[str, ...] = ()
