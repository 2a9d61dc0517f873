"""What becomes of what is known of a log's publishing when its publisher reports."""

from __future__ import annotations

import dataclasses

import pytest

from lakelog.errors import HistoryDiverged
from lakelog.format.log.publishing import Progress, apply_report
from lakelog.format.log.state import PublishReport, SnapshotOffsets

UUIDS = {number: f"{number:032x}" for number in range(1, 10)}


def offsets(snapshot_id: int, *ends: int) -> SnapshotOffsets:
    return SnapshotOffsets(snapshot_id, UUIDS[snapshot_id], ends)


def report(*snapshots: SnapshotOffsets, next_index: int = 0, next_uuid: str = "") -> PublishReport:
    return PublishReport("t", 1, 1, snapshots, next_index, next_uuid)


def test_snapshots_and_a_part_of_the_next() -> None:
    progress, reported = apply_report(
        "t", Progress(0), report(offsets(1, 5, 0), offsets(2, 7, 3), next_index=40, next_uuid=UUIDS[3]), UUIDS
    )
    assert progress == Progress(2, UUIDS[2], (7, 3), 40, UUIDS[3])
    assert reported == [offsets(1, 5, 0), offsets(2, 7, 3)]
    progress, reported = apply_report("t", progress, report(next_index=90, next_uuid=UUIDS[3]), UUIDS)
    assert (progress.snapshot_id, progress.next_index, reported) == (2, 90, [])
    progress, _ = apply_report("t", progress, report(offsets(3, 9, 9)), UUIDS)
    assert progress == Progress(3, UUIDS[3], (9, 9))


def test_the_baseline_stays() -> None:
    first = report(offsets(1, 5), next_index=40, next_uuid=UUIDS[2])
    second = report(offsets(2, 9), offsets(3, 10))
    known, _ = apply_report("t", Progress(0), first, UUIDS)
    again, reported = apply_report("t", known, first, UUIDS)
    assert (again, reported) == (known, [])
    known, _ = apply_report("t", known, second, UUIDS)
    for late in (first, second, report(next_index=50, next_uuid=UUIDS[3])):
        assert apply_report("t", known, late, UUIDS) == (known, [])
    part, _ = apply_report("t", known, report(next_index=9, next_uuid=UUIDS[4]), UUIDS)
    assert apply_report("t", part, report(next_index=4, next_uuid=UUIDS[4]), UUIDS)[0] == part


def test_offsets_never_go_back_and_partitions_may_come() -> None:
    known = Progress(1, UUIDS[1], (5, 8))
    progress, reported = apply_report("t", known, report(offsets(2, 6, 7), offsets(3, 6, 9, 1), offsets(4, 7)), UUIDS)
    assert [each.offsets for each in reported] == [(6, 8), (6, 9, 1), (7, 9, 1)]
    assert progress.offsets == (7, 9, 1)


def test_only_the_last_may_be_reported_alone() -> None:
    progress, reported = apply_report("t", Progress(2, UUIDS[2], (1,)), report(offsets(7, 4)), UUIDS)
    assert (progress, reported) == (Progress(7, UUIDS[7], (4,)), [offsets(7, 4)])


@pytest.mark.parametrize(
    "other",
    [
        report(dataclasses.replace(offsets(2, 1), snapshot_uuid="f" * 32)),
        report(offsets(2, 1), SnapshotOffsets(10, "a" * 32, (1,))),
        report(next_index=3, next_uuid="f" * 32),
        report(offsets(2, 1), next_index=3, next_uuid=UUIDS[4]),
    ],
)
def test_another_history_is_refused(other: PublishReport) -> None:
    with pytest.raises(HistoryDiverged, match="the metastore was restored to an earlier state"):
        apply_report("t", Progress(1, UUIDS[1], (1,)), other, UUIDS)
