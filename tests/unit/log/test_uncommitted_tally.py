"""Records that were sent before their commit, held against the rows of commits: what is wrong, and what is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakelog.log.columns import RawRecords, to_fetched
from lakelog.log.records import FetchedRecords
from lakelog.log.tally import SnapshotRows
from lakelog.log.uncommitted_tally import UncommittedFindings, UncommittedTally, split_uncommitted

Row = tuple[int, str, int | None, str]
"""Partition, attempt, place, kind."""

A, B, C = "a" * 32, "b" * 32, "c" * 32


def make_rows(partitions: Sequence[int], old: Sequence[int] = (), *, has_buckets: bool = True) -> SnapshotRows:
    has_record = np.ones(len(partitions), np.bool_)
    has_record[list(old)] = False
    return SnapshotRows("f" * 32, has_record, np.array(partitions, np.int32) if has_buckets else None)


# Of A two rows in partition 0 and one in 1; of B an old row and its new one in partition 1.
ROWS = {A: make_rows([0, 0, 1]), B: make_rows([1, 1], old=[0])}
IDS = {A: 1, B: 2, C: 3}
ALL: list[Row] = [(0, A, 7, "+I"), (0, A, 9, "+I"), (1, A, 8, "-D"), (1, B, 1, "+U")]


def make_records(rows: Sequence[Row]) -> FetchedRecords:
    headers = [
        {"attempt": attempt.encode(), "kind": kind.encode(), **({} if place is None else {"idx": str(place).encode()})}
        for _, attempt, place, kind in rows
    ]
    nothing = [None] * len(rows)
    return to_fetched(
        RawRecords([row[0] for row in rows], list(range(len(rows))), [0] * len(rows), nothing, nothing, headers)
    )


def count(
    rows: Sequence[Row],
    *,
    until: int = 9,
    starts: tuple[int, ...] = (0, 0),
    is_compacted: bool = False,
    at_once: int = 100,
) -> UncommittedFindings:
    tally = UncommittedTally(ROWS, IDS, frozenset([C]), starts, is_compacted)
    for first in range(0, len(rows), at_once):
        tally.add(make_records(rows[first : first + at_once]))
    return tally.finish(until)


def test_all_is_there_whatever_the_places_are() -> None:
    for at_once in (1, 3, 100):
        found = count(ALL, at_once=at_once)
        assert (found.records, found.rows, found.snapshots) == (4, 4, 2)
        assert (found.lost, found.duplicates, found.foreign, found.torn, found.examples) == (0, 0, 0, (), ())


def test_an_old_row_may_be_a_record_and_makes_up_for_none() -> None:
    assert count([*ALL, (1, B, 0, "-U")]).lost == 0
    assert count([*ALL[:3], (1, B, 0, "-U")]).lost == 1


def test_what_comes_twice_counts_once() -> None:
    for at_once in (1, 100):
        found = count([*ALL, ALL[0], ALL[3]], at_once=at_once)
        assert (found.duplicates, found.lost) == (2, 0)
        # Nor does it make up for another.
        found = count([ALL[0], ALL[0], *ALL[2:]], at_once=at_once)
        assert (found.duplicates, found.lost, found.torn) == (1, 1, (1,))


def test_a_row_in_another_partition_makes_up_for_none() -> None:
    found = count([ALL[0], (1, A, 9, "+I"), *ALL[2:]])
    assert (found.lost, found.torn) == (1, (1,))
    assert found.examples == (f"snapshot 1 lacks 1 rows that attempt {A} had sent",)
    # A commit that lost all is not torn.
    assert count(ALL[:3]).torn == ()


def test_what_is_not_published_need_not_be_there() -> None:
    assert count(ALL[:3], until=1).lost == 0


def test_tables_without_buckets_count_over_all_partitions() -> None:
    tally = UncommittedTally({A: make_rows([0, 0, 0], has_buckets=False)}, {A: 1}, frozenset(), (0, 0))
    tally.add(make_records(ALL[:2]))
    assert tally.finish(1).lost == 1
    tally.add(make_records([(1, A, 3, "+I")]))
    assert tally.finish(1).lost == 0
    cut = UncommittedTally({A: make_rows([0, 0, 0], has_buckets=False)}, {A: 1}, frozenset(), (0, 3))
    cut.add(make_records(ALL[:2]))
    found = cut.finish(1)
    assert (found.lost, found.unkept) == (0, 1), "it may have stood before what is kept"


def test_what_was_sent_again_after_its_commit_is_there_twice() -> None:
    assert count([*ALL, (0, C, 0, "+I")]).duplicates == 1


def test_records_of_no_snapshot_are_reported_by_attempt() -> None:
    found = count([*ALL, (0, "d" * 32, 0, "+I"), (1, "d" * 32, 1, "+I"), (0, "e" * 32, 0, "+I")])
    assert found.others == {"d" * 32: 2, "e" * 32: 1}
    assert found.foreign == 0


def test_records_that_name_no_attempt_or_no_row_are_foreign() -> None:
    found = count([*ALL, (0, "nobody", 0, "+I"), (0, A, None, "+I")])
    assert (found.foreign, found.others) == (2, {})
    assert found.examples == (
        "partition 0 offset 5 names no attempt's row",
        "partition 0 offset 4 names no attempt's row",
    )


def test_what_the_topic_does_not_keep_is_not_lost() -> None:
    found = count(ALL[1:], starts=(3, 0))
    assert (found.lost, found.unkept) == (0, 1)
    assert count(ALL[:3], starts=(3, 0)).lost == 1
    found = count(ALL[1:], is_compacted=True)
    assert (found.lost, found.compacted, found.torn) == (0, 1, ())


def test_uncommitted_records_and_others_are_distinguished() -> None:
    both = make_records([*ALL, (0, "", 1, "+I")])
    attempts = pa.array([*(row[1].encode() for row in ALL), None], pa.binary())
    both = FetchedRecords(**{**vars(both), "attempts": attempts})
    uncommitted, others = split_uncommitted(both)
    assert (len(uncommitted), len(others)) == (4, 1)
