"""How far a batch of a stream goes: whole snapshots, and of them as many as the limits allow of what is read."""

from __future__ import annotations

import pytest

from lakelog.format.tables.snapshot import ChangelogState, Snapshot, SnapshotKind
from lakelog.spark.stream.limits import ReadSize, TriggerLimits, pick_last
from lakelog.spark.stream.offsets import StreamOffset

CHANGELOGS = {2: ReadSize(4, 40, 400), 3: ReadSize(), 5: ReadSize(1, 10, 100)}
"""Of snapshots that have one."""


def snapshot(snapshot_id: int, kind: SnapshotKind = SnapshotKind.APPEND) -> Snapshot:
    """One of a history in which each adds a data file of 100 bytes with 10 rows; the fourth compacts."""
    has = snapshot_id in CHANGELOGS
    state = ChangelogState.ATTACHED if has else ChangelogState.NONE
    return Snapshot(
        snapshot_id, "", "", kind, 1, 0, None, 10, 1, 100 * snapshot_id, 10, 1, 0, "w", snapshot_id, changelog=state
    )


HISTORY = [snapshot(n, SnapshotKind.COMPACT if n == 4 else SnapshotKind.APPEND) for n in range(1, 7)]


@pytest.mark.parametrize(
    ("after", "limits", "last"),
    [
        (0, TriggerLimits(), 6),
        (0, TriggerLimits(files=4), 1),
        (0, TriggerLimits(files=5), 4),
        (0, TriggerLimits(files=6), 5),
        (0, TriggerLimits(size_bytes=139), 1),
        (0, TriggerLimits(size_bytes=140), 4),
        (0, TriggerLimits(rows=409), 1),
        (0, TriggerLimits(rows=410), 4),
        (0, TriggerLimits(files=5, rows=409), 1),
        (1, TriggerLimits(files=1), 2),
        (1, TriggerLimits(files=4), 4),
        (2, TriggerLimits(files=1), 5),
        (2, TriggerLimits(rows=110), 6),
        (5, TriggerLimits(files=1), 6),
        (6, TriggerLimits(), None),
    ],
)
def test_changelog_files_count_where_they_are_read(after: int, limits: TriggerLimits, last: int | None) -> None:
    kept = HISTORY[max(after - 1, 0) :]
    found = pick_last(
        kept, StreamOffset("t", after, ""), limits, shows_overwrites=False, measure_changelog=CHANGELOGS.__getitem__
    )
    assert (found and found.snapshot_id) == last


@pytest.mark.parametrize(("files", "last"), [(1, 1), (2, 2), (3, 4), (4, 5)])
def test_data_files_count_where_rows_are_read_as_they_were_written(files: int, last: int) -> None:
    found = pick_last(
        HISTORY,
        StreamOffset("t", 0, ""),
        TriggerLimits(files=files),
        shows_overwrites=False,
        measure_changelog=None,
    )
    assert found is not None
    assert found.snapshot_id == last


@pytest.mark.parametrize(("shown", "last"), [(True, 1), (False, 2)])
def test_overwrites_count_where_they_are_shown(shown: bool, last: int) -> None:
    history = [snapshot(1), snapshot(2, SnapshotKind.OVERWRITE)]
    found = pick_last(
        history,
        StreamOffset("t", 0, ""),
        TriggerLimits(files=1),
        shows_overwrites=shown,
        measure_changelog=lambda _: ReadSize(1),
    )
    assert found is not None
    assert found.snapshot_id == last
