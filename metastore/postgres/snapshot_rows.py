"""Snapshots as rows."""

from __future__ import annotations

from typing import Final

from lakelog.format.snapshot import ChangelogState, Snapshot, SnapshotKind

from .session import Row

SNAPSHOT_COLUMNS: Final = """
    snapshot_id, replace(snapshot_uuid::text, '-', ''), replace(parent_uuid::text, '-', ''), kind, schema_id,
    committed_at_ms, watermark_ms, total_rows, total_files, total_bytes, added_rows, added_files, removed_files, writer,
    identifier, properties, changelog, siblings
"""


def to_snapshot(row: Row) -> Snapshot:
    """A snapshot of a row with these columns."""
    values = list(row)
    values[2] = values[2] or ""
    values[3] = SnapshotKind(values[3])
    values[15] = values[15] or {}
    values[16] = ChangelogState(values[16] or "none")
    values[17] = values[17] or {}
    return Snapshot(*values)
