"""Which open snapshots are told together."""

from __future__ import annotations

import dataclasses

import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.tables.snapshot import ChangelogState, Snapshot, SnapshotKind
from lakelog.reads.complete_changes import check_complete, check_timeout
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.writes.changelog.late_changelog import MAX_TOGETHER, keep_bounded, pick_together

PENDING, ATTACHED, NONE = ChangelogState.PENDING, ChangelogState.ATTACHED, ChangelogState.NONE


def snapshot(
    number: int, changelog: ChangelogState = PENDING, kind: SnapshotKind = SnapshotKind.APPEND, rows: int = 10
) -> Snapshot:
    return Snapshot(number, "", "", kind, 0, 0, None, 0, 0, 0, rows, 1, 0, "w", number, changelog=changelog)


def picked(*snapshots: Snapshot) -> list[int]:
    return [each.snapshot_id for each in pick_together(snapshots)]


def test_successive_ones_go_together_up_to_a_bound() -> None:
    assert picked(snapshot(3)) == [3]
    assert picked(snapshot(3), snapshot(4), snapshot(5)) == [3, 4, 5]
    assert len(picked(*(snapshot(number) for number in range(1, 500)))) == MAX_TOGETHER


@pytest.mark.parametrize(
    "between",
    [
        snapshot(4, ATTACHED),
        snapshot(4, NONE),
        snapshot(4, NONE, SnapshotKind.OVERWRITE),
    ],
)
def test_what_changed_rows_in_between_ends_it(between: Snapshot) -> None:
    assert picked(snapshot(3), between, snapshot(5)) == [3]


def test_a_compaction_in_between_does_not() -> None:
    assert picked(snapshot(3), snapshot(4, NONE, SnapshotKind.COMPACT), snapshot(5)) == [3, 5]


def test_other_columns_end_it() -> None:
    altered = [dataclasses.replace(snapshot(number), schema_id=1) for number in (4, 5)]
    assert picked(snapshot(3), *altered) == [3]
    assert picked(*altered) == [4, 5]


def test_many_rows_are_emitted_alone() -> None:
    assert picked(snapshot(3, rows=10_000_000), snapshot(4)) == [3]
    assert picked(snapshot(3, rows=300_000), snapshot(4, rows=200_000), snapshot(5, rows=200_000)) == [3, 4]


def live_file(number: int, size_bytes: int) -> LiveFile:
    values = {field.name: 0 for field in dataclasses.fields(LiveFile)}
    return LiveFile(**values | {"added_snapshot": number, "size_bytes": size_bytes})  # type: ignore[arg-type]


def test_wide_rows_are_emitted_alone() -> None:
    snapshots = [snapshot(3), snapshot(4), snapshot(5)]
    small = [live_file(3, 10), live_file(4, 10), live_file(5, 10), live_file(9, 1 << 40)]
    assert keep_bounded(snapshots, small) == snapshots
    assert keep_bounded(snapshots, [live_file(3, 1 << 40)]) == snapshots[:1]
    assert keep_bounded(snapshots, [live_file(3, 40 << 20), live_file(4, 40 << 20)]) == snapshots[:1]


def test_many_files_are_emitted_alone() -> None:
    snapshots = [snapshot(3), snapshot(4), snapshot(5)]
    assert keep_bounded(snapshots, [live_file(4, 1)] * 6000) == snapshots[:1]
    assert keep_bounded(snapshots, [live_file(3, 1)] * 3000 + [live_file(5, 1)] * 3000) == snapshots[:2]


def test_a_time_to_wait_is_seconds() -> None:
    assert check_timeout(0) == 0.0
    assert check_timeout(1.5) == 1.5
    for value in (-1, float("nan"), "3", None, True):
        with pytest.raises(InvalidArgument, match="no time to wait"):
            check_timeout(value)  # type: ignore[arg-type]


def test_a_range_without_open_ones_is_complete() -> None:
    check_complete(None, (snapshot(1, ATTACHED), snapshot(2, NONE)))  # type: ignore[arg-type]
