"""Snapshots made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lakelog.format.tables.snapshot import Snapshot, SnapshotKind

CREATED_MS = 1_357_034_400_000  # 2013-01-01T10:00:00Z


def make_snapshot(number: int, **changes: Any) -> Snapshot:
    snapshot = Snapshot(
        snapshot_id=number,
        snapshot_uuid=f"{number:032x}",
        parent_uuid=f"{number - 1:032x}" if number > 1 else "",
        kind=SnapshotKind.APPEND,
        schema_id=0,
        committed_at_ms=CREATED_MS + number * 1000,
        watermark_ms=None,
        total_rows=1000 * number,
        total_files=number,
        total_bytes=1536 * number,
        added_rows=1000,
        added_files=1,
        removed_files=0,
        writer="loader",
        identifier=number,
    )
    return replace(snapshot, **changes)
