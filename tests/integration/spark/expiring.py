"""Snapshots that expire."""

from __future__ import annotations

from lakelog.sdk.tables.table import Table


def expire(table: Table, earliest: int) -> None:
    """Has all snapshots before one expire."""
    newest = table.snapshots(1)["id"][0].as_py()
    found = table.expire_snapshots(older_than=1 << 52, retain_last=newest - earliest + 1)
    assert found.first_kept == earliest
