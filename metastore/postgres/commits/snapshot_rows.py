"""Snapshots as rows."""

from __future__ import annotations

from typing import Final

from lakelog.format.tables.snapshot import ChangelogState, LogContent, Snapshot, SnapshotKind

from ..connection.session import Row

SNAPSHOT_COLUMNS: Final = """
    snapshot_id, replace(snapshot_uuid::text, '-', ''), replace(parent_uuid::text, '-', ''), kind, schema_id,
    committed_at_ms, watermark_ms, total_rows, total_files, total_bytes, added_rows, added_files, removed_files, writer,
    identifier, properties, changelog, log, co_committed, replace(attempt_id::text, '-', ''), sent_offsets
"""


def to_snapshot(row: Row) -> Snapshot:
    """The snapshot in a row with these columns."""
    values = list(row)
    values[2] = values[2] or ""
    values[3] = SnapshotKind(values[3])
    values[15] = values[15] or {}
    values[16] = ChangelogState(values[16] or "none")
    values[17] = LogContent(values[17] or "none")
    values[18] = values[18] or {}
    values[19] = values[19] or ""
    if values[20] is not None:
        # JSON keys are strings.
        values[20] = {int(partition): offset for partition, offset in values[20].items()}
    return Snapshot(*values)
