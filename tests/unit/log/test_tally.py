"""A log's records held against the rows of snapshots: each thing that can be wrong, and what is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakelog.log.records import FetchedRecords
from lakelog.log.tally import LogFindings, LogTally, SnapshotRows

Row = tuple[int, int, int, int]
"""Partition, offset, snapshot, index."""


def uuid_of(snapshot_id: int) -> str:
    return f"{snapshot_id:032x}"


def make_rows(snapshot_id: int, partitions: Sequence[int], old: Sequence[int] = ()) -> SnapshotRows:
    has_record = np.ones(len(partitions), np.bool_)
    has_record[list(old)] = False
    return SnapshotRows(uuid_of(snapshot_id), has_record, np.array(partitions, np.int32))


# Snapshot 1: rows 0 and 1 in partition 0, row 2 in partition 1. Snapshot 3: row 0 is an old one.
SNAPSHOTS = {1: make_rows(1, [0, 0, 1]), 3: make_rows(3, [0, 0, 1], old=[0])}
ALL: list[Row] = [(0, 0, 1, 0), (0, 1, 1, 1), (1, 0, 1, 2), (0, 3, 3, 1), (1, 2, 3, 2)]


def make_records(rows: Sequence[Row], uuids: Sequence[str | None] = ()) -> FetchedRecords:
    count = len(rows)
    columns = [np.array([row[place] for row in rows], np.int64) for place in range(4)]
    named = uuids or [uuid_of(row[2]) for row in rows]
    empty = pa.nulls(count, pa.binary())
    return FetchedRecords(
        partitions=columns[0].astype(np.int32),
        offsets=columns[1],
        timestamps_ms=np.zeros(count, np.int64),
        keys=empty,
        values=empty,
        kinds=empty,
        snapshot_ids=pa.array(
            [None if uuid is None else row[2] for row, uuid in zip(rows, named, strict=True)], pa.int64()
        ),
        uuids=pa.array([None if uuid is None else uuid.encode() for uuid in named], pa.binary()),
        attempts=empty,
        indexes=pa.array(columns[3]),
        sequences=empty,
    )


def count(
    rows: Sequence[Row],
    uuids: Sequence[str | None] = (),
    *,
    after: int = 0,
    until: int = 3,
    starts: tuple[int, ...] = (0, 0),
    is_compacted: bool = False,
    is_shared: bool = False,
    at_once: int = 100,
) -> LogFindings:
    snapshots = {number: rows for number, rows in SNAPSHOTS.items() if number > after}
    tally = LogTally(snapshots, after, until, starts, is_compacted, is_shared)
    for first in range(0, len(rows), at_once):
        part = slice(first, first + at_once)
        tally.add(make_records(rows[part], list(uuids)[part]))
    return tally.finish()


def test_a_log_that_is_as_it_should_be() -> None:
    for at_once in (1, 2, 100):
        found = count(ALL, at_once=at_once)
        assert found.is_fine
        assert (found.records, found.rows, found.snapshots) == (5, 5, 2)
        assert found.examples == ()


def test_an_old_row_may_be_a_record() -> None:
    assert count([*ALL[:3], (0, 3, 3, 0), (0, 4, 3, 1), ALL[4]]).is_fine


def test_a_row_that_is_lost() -> None:
    found = count([each for each in ALL if each != (0, 1, 1, 1)])
    assert (found.lost, found.torn) == (1, (1,))
    assert found.examples == ("snapshot 1 lacks 1 rows, the first with idx 1",)


def test_a_snapshot_that_is_lost_is_not_torn() -> None:
    found = count(ALL[:3])
    assert (found.lost, found.torn, found.is_fine) == (2, (), False)


def test_what_is_not_published_yet_is_not_lost() -> None:
    assert count(ALL[:3], until=2).is_fine
    assert count(ALL[:4], until=2).is_fine


def test_a_row_that_is_there_twice() -> None:
    for at_once in (1, 100):
        found = count([*ALL, (1, 4, 3, 2)], at_once=at_once)
        assert (found.duplicates, found.disordered, found.lost) == (1, 0, 0)
        assert "row 2 of snapshot 3 is there more than once" in found.examples


def test_rows_in_another_order() -> None:
    for at_once in (1, 100):
        found = count([(0, 0, 1, 1), (0, 1, 1, 0), *ALL[2:]], at_once=at_once)
        assert (found.disordered, found.duplicates, found.lost) == (1, 0, 0)
        assert found.examples == ("partition 0 offset 1 comes after a later row",)


def test_records_of_others() -> None:
    uuids: list[str | None] = [uuid_of(row[2]) for row in ALL]
    assert count([*ALL, (0, 9, 3, 7)]).examples == ("partition 0 offset 9 is of a row that snapshot 3 does not have",)
    assert count([*ALL, (0, 9, 2, 0)]).examples == (
        "partition 0 offset 9 is of a snapshot that the table does not have, or that brings nothing to its log",
    )
    other = count([*ALL, (0, 9, 3, 1)], [*uuids, "f" * 32])
    assert (other.foreign, other.duplicates) == (1, 0)
    assert "the table does not have" in other.examples[0]
    without = count([*ALL, (0, 9, 3, 1)], [*uuids, None])
    assert without.examples == ("partition 0 offset 9 has no headers of ours",)
    assert not without.is_fine


def test_records_of_an_earlier_generation_are_not_looked_at() -> None:
    found = count([(0, 0, 1, 1), (0, 1, 1, 1), *ALL[3:]], after=1)
    assert found.is_fine
    assert (found.earlier, found.snapshots) == (2, 1)


def test_what_the_topic_no_longer_keeps_is_not_lost() -> None:
    found = count(ALL[1:], starts=(1, 0))
    assert (found.is_fine, found.expired, found.lost) == (True, 1, 0)
    # Nothing is kept of partition 1, which was cut; partition 0 must have all.
    found = count([each for each in ALL if each[0] == 0 and each[1] != 3], starts=(0, 3))
    assert (found.expired, found.lost) == (2, 1)


def test_rows_after_the_first_one_that_is_kept_are_lost() -> None:
    assert count([ALL[1], ALL[2], ALL[4]], starts=(1, 0)).lost == 1


def test_a_compacted_topic_lacks_what_was_replaced() -> None:
    found = count(ALL[3:], is_compacted=True)
    assert (found.is_fine, found.compacted) == (True, 3)


def test_what_others_left_before_the_log_began_is_not_looked_at() -> None:
    old: list[Row] = [(0, 0, 3, 1), (0, 1, 9, 9), (1, 0, 0, 0)]
    rows = old + [(partition, offset + 7, snapshot, index) for partition, offset, snapshot, index in ALL]
    uuids = ["e" * 32, "e" * 32, None, *(uuid_of(row[2]) for row in ALL)]
    for at_once in (1, 2, 100):
        found = count(rows, uuids, is_shared=True, at_once=at_once)
        assert (found.is_fine, found.earlier) == (True, 3)
        # A topic of our own never had another user.
        assert count(rows, uuids, at_once=at_once).foreign == 3
        # Behind its first record nobody else writes to a log.
        assert count([*rows, (0, 99, 3, 1)], [*uuids, None], is_shared=True, at_once=at_once).foreign == 1
