"""Guards since one snapshot of a table are combined; others stay apart, as each is judged by itself."""

from __future__ import annotations

import itertools

from lakelog.format.commit.guards import MAX_GUARDED_PLACES, meet_guards
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
