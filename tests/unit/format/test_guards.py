"""Guards since one snapshot of a table are combined; others stay apart, as each is judged by itself."""

from __future__ import annotations

import itertools

from lakelog.format.commit.guards import MAX_GUARDED_PLACES, count_places, meet_guards
from lakelog.format.commit.request import BucketRef, TableGuard

TABLE, OTHER = "a" * 32, "d" * 32
BEFORE, AFTER = "b" * 32, "c" * 32


def guard(*buckets: int, partitions: tuple[bytes, ...] = ()) -> TableGuard:
    return TableGuard(TABLE, 3, partitions, tuple(BucketRef(b"p", each) for each in buckets), BEFORE)


def test_guards_since_one_snapshot_become_one() -> None:
    assert meet_guards([guard(2, 1), guard(1, 5)]) == (guard(1, 2, 5),)
    assert meet_guards([guard(2), guard(partitions=(b"p",))]) == (guard(partitions=(b"p",)),)
    whole = TableGuard(TABLE, 3, snapshot_uuid=BEFORE)
    for pair in itertools.permutations([guard(2), whole]):
        assert meet_guards(pair) == (whole,)
    many = guard(*range(MAX_GUARDED_PLACES))
    assert meet_guards([many, guard(7)]) == (many,)
    assert meet_guards([many, guard(MAX_GUARDED_PLACES)]) == (whole,)


def test_guards_since_different_snapshots_stay_apart() -> None:
    """Also since two snapshots of one number, of which the database has lost one."""
    guards = (
        TableGuard(TABLE, 3, snapshot_uuid=BEFORE),
        TableGuard(TABLE, 3, snapshot_uuid=AFTER),
        TableGuard(TABLE, 4, snapshot_uuid=AFTER),
        TableGuard(OTHER, 3, snapshot_uuid=BEFORE),
    )
    assert meet_guards(guards * 2) == guards


def test_places_of_all_tables_together_are_few_enough_for_a_commit() -> None:
    """The tables with the most are guarded as a whole, and only as many as it takes."""

    def guard_of(table: str, count: int) -> TableGuard:
        return TableGuard(table * 32, 3, buckets=tuple(BucketRef(b"", number) for number in range(count)))

    small, middle, large = guard_of("a", 100), guard_of("b", 4000), guard_of("c", MAX_GUARDED_PLACES - 4100)
    assert meet_guards([small, middle, large]) == (small, middle, large)
    more = guard_of("d", 1)
    assert meet_guards([small, middle, large, more]) == (small, middle, TableGuard(large.table_uuid, 3), more)
    halves = [
        TableGuard(TABLE, 3, buckets=large.buckets),
        TableGuard(TABLE, 3, tuple(n.to_bytes(2) for n in range(5000))),
    ]
    assert [count_places(each) for each in meet_guards([*halves, small])] == [0]
    assert [count_places(each) for each in meet_guards([*halves, more])] == [0, 1]
