"""Guards of one table are combined to one that refuses what one of them refuses."""

from __future__ import annotations

import itertools

import pytest

from lakelog.errors import HistoryDiverged
from lakelog.format.commit.guards import MAX_GUARDED_PLACES, count_places, meet_guards
from lakelog.format.commit.request import BucketRef, TableGuard

TABLE = "a" * 32
BEFORE, AFTER = "b" * 32, "c" * 32


def test_reads_of_a_lost_snapshot_and_of_the_one_with_its_number_do_not_go_together() -> None:
    """In whatever order they are guarded."""
    for first, second in itertools.permutations([BEFORE, AFTER]):
        with pytest.raises(HistoryDiverged, match=f"Snapshot 3 was read as {first} and as {second}"):
            meet_guards([TableGuard(TABLE, 3, snapshot_uuid=uuid) for uuid in (first, second)])


def test_a_guard_by_number_goes_together_with_one_that_knows_the_uuid() -> None:
    for uuids in itertools.permutations(["", BEFORE]):
        (met,) = meet_guards([TableGuard(TABLE, 3, snapshot_uuid=uuid) for uuid in uuids])
        assert met.snapshot_uuid == BEFORE
    (met,) = meet_guards([TableGuard(TABLE, number, snapshot_uuid=BEFORE) for number in (4, 3, 5)])
    assert met.if_snapshot == 3


def test_places_of_all_tables_together_are_few_enough_for_a_commit() -> None:
    """The tables with the most are guarded as a whole, and only as many as it takes."""

    def guard(table: str, count: int) -> TableGuard:
        return TableGuard(table * 32, 3, buckets=tuple(BucketRef(b"", number) for number in range(count)))

    small, middle, large = guard("a", 100), guard("b", 4000), guard("c", MAX_GUARDED_PLACES - 4100)
    assert meet_guards([small, middle, large]) == (small, middle, large)
    more = guard("d", 1)
    assert meet_guards([small, middle, large, more]) == (small, middle, TableGuard(large.table_uuid, 3), more)
    halves = [
        TableGuard(TABLE, 3, buckets=large.buckets),
        TableGuard(TABLE, 3, tuple(n.to_bytes(2) for n in range(5000))),
    ]
    assert [count_places(each) for each in meet_guards([*halves, small])] == [0]
    assert [count_places(each) for each in meet_guards([*halves, more])] == [0, 1]
