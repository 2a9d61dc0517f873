"""Compactions at the gate: the order of rows and files, which none may change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.commit.request import LEVEL_TAKEN, OUT_OF_ORDER, BucketRef, CompactionGroup, DroppedGroup
from lakelog.format.tables.snapshot import SnapshotKind
from tests.support.metastore.making import append, compaction, make_change, make_file, make_table, snapshot_ids

from .compacting import BUCKET, bounds, commit, files, groups, name, shown, stage


def test_each_group_has_the_place_of_its_own_inputs(metastore: Metastore) -> None:
    table = make_table(metastore)
    for number, (first, last) in enumerate([(1, 3), (7, 9), (1, 3), (7, 9)], start=1):
        append(metastore, table, number, names=str(number), **bounds(first, last))
    attempt = stage(metastore, table)
    change = groups(table, attempt, ("x", BUCKET, [1, 3], bounds(1, 3)), ("y", BUCKET, [2, 4], bounds(7, 9)))
    assert commit(metastore, change, attempt=attempt).dropped == ()
    assert [(name(file), file["order_snapshot"]) for file in files(metastore, table)] == [("x", 3), ("y", 4)]


def test_rows_never_pass_a_file_that_stays(metastore: Metastore) -> None:
    table = make_table(metastore)
    for number in (1, 2, 3):
        append(metastore, table, number, names=str(number), **bounds(1, 9))
    attempt = stage(metastore, table)
    change = compaction(table, [make_file(attempt, "z", **bounds(1, 9))], (1, 3))
    (dropped,) = commit(metastore, change, attempt=attempt).dropped
    path = files(metastore, table)[1]["path"]
    assert dropped == DroppedGroup(
        0,
        OUT_OF_ORDER,
        f"'{path}' (level 0, of snapshot 2) stands between its rows and the place they would get, and is not part of "
        "it: rows would pass it. Take it as an input, or leave out what lies beyond it.",
        2,
    )
    assert shown(metastore, table) == "10 20 30"


def test_a_level_is_one_sorted_run(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="a", **bounds(1, 5))
    append(metastore, table, 2, names="b", **bounds(5, 9))
    append(metastore, table, 3, names="c", **bounds(6, 9))
    commit(metastore, compaction(table, moves=(1,), level=3))
    (dropped,) = commit(metastore, compaction(table, moves=(2,), level=3), 2).dropped
    assert (dropped.reason, dropped.file_id) == (LEVEL_TAKEN, 4)
    assert "(level 3, of snapshot 1) is at that level, shares its key range" in dropped.message
    # A moved file that overlaps nothing may pass what is older: there is no key that both have.
    assert commit(metastore, compaction(table, moves=(2,), level=2), 3).dropped == ()
    assert commit(metastore, compaction(table, moves=(3,), level=3), 4).dropped[0].reason == OUT_OF_ORDER
    assert shown(metastore, table) == "a3 b2 c0"


def test_each_group_is_judged_on_what_those_before_it_left(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="a", **bounds(1, 5))
    append(metastore, table, 2, names="b", **bounds(4, 9))

    def move(number: int, level: int) -> CompactionGroup:
        return CompactionGroup(BUCKET, moves=(number,), level=level)

    change = make_change(table, kind=SnapshotKind.COMPACT, groups=(move(1, 3), move(2, 3)))
    assert [(each.group, each.reason) for each in commit(metastore, change).dropped] == [(1, LEVEL_TAKEN)]
    assert shown(metastore, table) == "a3 b0"
    change = make_change(table, kind=SnapshotKind.COMPACT, groups=(move(3, 5), move(2, 3)))
    assert commit(metastore, change, 2).dropped == ()
    assert shown(metastore, table) == "a5 b3"


def test_rows_without_a_key_keep_their_order_within_a_bucket(metastore: Metastore) -> None:
    """6.3."""
    table = make_table(metastore, keyed=False, options={"bucket": "2", "bucket-key": "id"})
    for number in (1, 2, 3):
        append(metastore, table, number, names=str(number))
    attempt = stage(metastore, table)
    (dropped,) = commit(
        metastore, compaction(table, [make_file(attempt, row_count=20)], (1, 3)), attempt=attempt
    ).dropped
    assert (dropped.reason, dropped.file_id) == (OUT_OF_ORDER, 2)
    attempt = stage(metastore, table)
    change = compaction(table, [make_file(attempt, "z", row_count=20)], (1, 2))
    assert commit(metastore, change, 2, attempt=attempt).dropped == ()
    assert shown(metastore, table) == "z0 30"


def test_rows_without_an_order_may_be_packed_in_any(metastore: Metastore) -> None:
    """6.2."""
    table = make_table(metastore, keyed=False)
    for number in (1, 2, 3):
        append(metastore, table, number, names=str(number))
    attempt = stage(metastore, table)
    change = compaction(table, [make_file(attempt, "z", row_count=20)], (1, 3))
    assert commit(metastore, change, attempt=attempt).dropped == ()
    assert shown(metastore, table) == "20 z0"


@pytest.mark.parametrize(
    ("fields", "group", "message"),
    [
        ({}, {"bucket": BucketRef(b"", 1)}, "in bucket 0 of the partition, not in the group's bucket 1"),
        ({}, {"level": 0}, "has level 0. Level 0 is for what writers write"),
        ({}, {"inputs": (1,), "moves": (2,), "level": 1}, "and their key ranges overlap. A level is one sorted run"),
        ({"row_count": 21}, {}, "writes 21 rows in the place of 20. A compaction changes no row, so none may be added"),
    ],
)
def test_what_never_could_be_right_is_refused(
    metastore: Metastore, fields: dict[str, Any], group: dict[str, Any], message: str
) -> None:
    table = make_table(metastore)
    append(metastore, table, 1, names="ab")
    attempt = stage(metastore, table)
    wanted = replace(CompactionGroup(BUCKET, (1, 2), 1, (), 1), **group)
    file = make_file(attempt, "z", level=wanted.level, bucket=wanted.bucket.bucket, **fields)
    change = make_change(table, [file], kind=SnapshotKind.COMPACT, groups=(wanted,))
    with pytest.raises(InvalidArgument) as error:
        commit(metastore, change, attempt=attempt)
    assert error.value.message.startswith(f"Group 0 of the compaction of {table.name} ")
    assert message in error.value.message
    assert snapshot_ids(metastore, table) == [1]
    # Nothing was decided: the attempt may still be given up.
    metastore.abandon_attempt(attempt)


def test_files_only_move_to_higher_levels(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    commit(metastore, compaction(table, moves=(1,), level=3))
    with pytest.raises(InvalidArgument, match=r"which is at level 3, to level 3. Files only move to higher"):
        commit(metastore, compaction(table, moves=(2,), level=3), 2)


def test_tables_without_a_key_have_no_levels_and_lose_no_row(metastore: Metastore) -> None:
    table = make_table(metastore, keyed=False)
    append(metastore, table, 1)
    with pytest.raises(InvalidArgument, match=r"has level 1. Without a primary key there are no levels; leave it 0."):
        commit(metastore, compaction(table, moves=(1,), level=1))
    with pytest.raises(InvalidArgument, match=r"moves '.*', which is at level 0, to level 0"):
        commit(metastore, compaction(table, moves=(1,)))
    with pytest.raises(InvalidArgument, match=r"writes 0 rows in the place of 10.* without a primary key all stay"):
        commit(metastore, compaction(table, inputs=(1,)))
