"""What the list of tables counts as written lately."""

from __future__ import annotations

from console.pages.tables.names import count_writes
from lakelog.format.tables.snapshot import Snapshot, SnapshotKind


def _snapshot(number: int, kind: SnapshotKind) -> Snapshot:
    return Snapshot(number, "", "", kind, 0, number * 10, None, 0, 0, 0, 100 + number, 0, 0, "", 0)


def test_compactions_and_what_is_older_do_not_count() -> None:
    kinds = (SnapshotKind.APPEND, SnapshotKind.APPEND, SnapshotKind.COMPACT, SnapshotKind.OVERWRITE)
    snapshots = [_snapshot(number, kind) for number, kind in enumerate(kinds)]
    assert count_writes(snapshots, 10) == (2, 101 + 103)
    assert count_writes([], 10) == (0, 0)
