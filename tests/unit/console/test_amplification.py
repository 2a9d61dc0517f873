"""How often rows were written."""

from __future__ import annotations

from typing import Any

from console.pages.jobs import find_amplification
from lakelog.format.tables.snapshot import Snapshot, SnapshotKind


def snapshot(kind: SnapshotKind, added_rows: int) -> Snapshot:
    fields: dict[str, Any] = dict.fromkeys(
        ("snapshot_id", "schema_id", "committed_at_ms", "total_rows", "total_files", "total_bytes", "added_files"), 0
    )
    return Snapshot(
        **fields,
        snapshot_uuid="",
        parent_uuid="",
        kind=kind,
        watermark_ms=None,
        added_rows=added_rows,
        removed_files=0,
        writer="",
        identifier=0,
    )


def test_compactions_count_beside_commits() -> None:
    found = find_amplification([snapshot(SnapshotKind.APPEND, 100), snapshot(SnapshotKind.COMPACT, 250)])
    assert (found["committed_rows"], found["rewritten_rows"], found["amplification"]) == (100, 250, 3.5)


def test_nothing_was_committed() -> None:
    assert find_amplification([snapshot(SnapshotKind.COMPACT, 250)])["amplification"] is None
    assert find_amplification([])["amplification"] is None
