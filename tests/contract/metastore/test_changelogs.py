"""Changelog files: what a commit says of its own changes, and how they are planned."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakelog.client.metastore.metastore import Metastore, WatchPosition
from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.commit.request import CommitRequest, CommitResult, RemoveEverything
from lakelog.format.keys.encoding import encode_key
from lakelog.format.tables.files import FILE_SCHEMA, ColumnStatistics
from lakelog.format.tables.plan import AtSnapshot, InRange, PlanRequest
from lakelog.format.tables.predicate import Comparison, Operator
from lakelog.format.tables.snapshot import ChangelogState, SnapshotKind
from lakelog.format.tables.table import TableInfo
from tests.support.metastore.making import append, day, key, make_change, make_file, make_table

ATTACHED, NONE = ChangelogState.ATTACHED, ChangelogState.NONE
V = 3


def number(value: float) -> bytes:
    return encode_key([pa.scalar(value, pa.float64())])


def commit(
    metastore: Metastore, table: TableInfo, identifier: int, names: str = "", change: Any = None, **fields: Any
) -> CommitResult:
    """Commits one data file and a changelog file for each letter of `names`."""
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    data = make_file(attempt, f"data{identifier}", partition=fields.get("partition", b""))
    logged = tuple(make_file(attempt, name, **fields) for name in names)
    made = make_change(table, [data], **{"changelog": ATTACHED, "changelog_files": logged, **(change or {})})
    return metastore.commit(CommitRequest("w", identifier, (made,), attempt))


def changelog(metastore: Metastore, table: TableInfo, after: int, until: int, **request: Any) -> list[dict[str, Any]]:
    plan = metastore.plan(PlanRequest(table.table_uuid, InRange(after, until), changelog=True, **request))
    assert plan.files.schema.equals(FILE_SCHEMA)
    assert [each.snapshot_id for each in plan.range_snapshots] == list(range(after + 1, until + 1))
    found: list[dict[str, Any]] = plan.files.to_pylist()
    return found


def names(files: list[dict[str, Any]]) -> str:
    return "".join(file["path"].split("/")[-1][:-8] for file in files)


def test_a_snapshot_says_whether_it_has_a_changelog(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    commit(metastore, table, 2, "ab")
    commit(metastore, table, 3)
    listed = metastore.list_snapshots(table.table_uuid).snapshots
    assert [each.changelog for each in listed] == [NONE, ATTACHED, ATTACHED]
    # They are no part of the table's state.
    assert [(each.total_files, each.added_files, each.total_rows) for each in listed] == [
        (1, 1, 10),
        (2, 1, 20),
        (3, 1, 30),
    ]
    watch = metastore.watch([WatchPosition(table.table_uuid, 1)])
    try:
        assert next(iter(watch)).snapshots == tuple(listed[1:])
    finally:
        watch.close()


def test_a_plan_returns_all_of_a_changelog_file(metastore: Metastore) -> None:
    table = make_table(metastore, partitioned=True)
    commit(
        metastore,
        table,
        1,
        "a",
        partition=day("mon"),
        bucket=3,
        row_count=2**40,
        delete_count=5,
        size_bytes=2**41,
        min_key=key(-1),
        max_key=key(2**62),
        statistics=(ColumnStatistics(2, 0, b"a", b"b"),),
    )
    (snapshot,) = metastore.list_snapshots(table.table_uuid).snapshots
    (found,) = changelog(metastore, table, 0, 1)
    assert found.pop("path").endswith("/a.parquet")
    assert found == {
        "file_id": 0,
        "partition": day("mon"),
        "bucket": 3,
        "level": 0,
        "row_count": 2**40,
        "delete_count": 5,
        "size_bytes": 2**41,
        "min_key": key(-1),
        "max_key": key(2**62),
        "schema_id": 0,
        "added_snapshot": 1,
        "order_snapshot": 1,
        "order_ordinal": 0,
        "order_time_ms": snapshot.committed_at_ms,
        "deletion_vector_path": None,
    }


def test_a_range_lists_its_changelog_files_alone(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit(metastore, table, 1, "a")
    append(metastore, table, 2)
    commit(metastore, table, 3, "bc")
    commit(metastore, table, 4, "d")
    assert names(changelog(metastore, table, 0, 4)) == "abcd"
    assert names(changelog(metastore, table, 1, 3)) == "bc"
    assert names(changelog(metastore, table, 1, 2)) == ""
    # Data files know nothing of them.
    plain = metastore.plan(PlanRequest(table.table_uuid, InRange(0, 4))).files.to_pylist()
    assert [file["file_id"] for file in plain] == [1, 2, 3, 4]
    state = metastore.plan(PlanRequest(table.table_uuid)).files.to_pylist()
    assert names(state) == "data1adata3data4"
    with pytest.raises(NotFound, match="has no snapshot 5"):
        changelog(metastore, table, 0, 5)
    with pytest.raises(InvalidArgument, match=r"changelog is True\. A state has no changelog"):
        metastore.plan(PlanRequest(table.table_uuid, AtSnapshot(1), changelog=True))


def test_changelog_files_are_left_out_by_bucket_partition_key_and_statistics(metastore: Metastore) -> None:
    table = make_table(metastore, partitioned=True)
    for identifier, (name, value) in enumerate(zip("abc", (1.0, 5.0, 9.0), strict=True), 1):
        commit(
            metastore,
            table,
            identifier,
            name,
            partition=day(name),
            bucket=identifier,
            min_key=key(identifier * 10),
            max_key=key(identifier * 10 + 5),
            statistics=(ColumnStatistics(V, 0, number(value), number(value + 1)),),
        )
    assert names(changelog(metastore, table, 0, 3, buckets=(1, 3))) == "ac"
    assert names(changelog(metastore, table, 0, 3, partitions=(day("b"),))) == "b"
    assert names(changelog(metastore, table, 0, 3, first_key=key(16), last_key=key(20))) == "b"
    # Each change row stands for itself: columns besides the key prune too, as they may not in data files.
    above = Comparison(V, Operator.GREATER, (number(6.0),))
    assert names(changelog(metastore, table, 0, 3, predicate=above)) == "c"
    data = metastore.plan(PlanRequest(table.table_uuid, InRange(0, 3), above)).files
    assert data.num_rows == 3
    of_day = Comparison(1, Operator.IN, (day("a"),))
    assert names(changelog(metastore, table, 0, 3, predicate=of_day)) == "a"


def test_an_overwrite_may_emit_partitions_that_it_empties(metastore: Metastore) -> None:
    table = make_table(metastore, partitioned=True)
    commit(metastore, table, 1, "a", partition=day("mon"))
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    logged = (make_file(attempt, "x", partition=day("sun"), delete_count=10),)
    change = make_change(
        table, kind=SnapshotKind.OVERWRITE, remove=RemoveEverything(), changelog=ATTACHED, changelog_files=logged
    )
    metastore.commit(CommitRequest("w", 2, (change,), attempt))
    assert [file["partition"] for file in changelog(metastore, table, 1, 2)] == [day("sun")]
    assert names(changelog(metastore, table, 0, 2, predicate=Comparison(1, Operator.IN, (day("sun"),)))) == "x"


def test_a_repeat_attaches_nothing(metastore: Metastore) -> None:
    table = make_table(metastore)
    first = commit(metastore, table, 1, "a")
    again = commit(metastore, table, 1, "b")
    assert again == first
    assert names(changelog(metastore, table, 0, 1)) == "a"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"change": {"changelog": NONE}}, "changelog_files is '1 files'. changelog says 'none': say ATTACHED"),
        ({"bucket": 4}, "is for bucket 4, but"),
        ({"path": "data/x.parquet"}, "a commit's files lie in the folder of its attempt"),
        ({"schema_id": 1}, "was written with schema 1, but its commit says 0"),
        ({"row_count": 1, "delete_count": 2}, "count at least 0 deletes"),
    ],
)
def test_what_does_not_fit_is_refused(metastore: Metastore, fields: dict[str, Any], message: str) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    with pytest.raises(InvalidArgument) as error:
        commit(metastore, table, 2, "a", **fields)
    assert message in error.value.message
    assert metastore.list_snapshots(table.table_uuid).latest_snapshot_id == 1


def test_a_partition_must_be_one_of_the_table(metastore: Metastore) -> None:
    table = make_table(metastore, partitioned=True)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    data = make_file(attempt, "a", partition=day("mon"))
    logged = (make_file(attempt, "b", partition=b"\x07"),)
    change = make_change(table, [data], changelog=ATTACHED, changelog_files=logged)
    with pytest.raises(InvalidArgument, match="this is no encoding of their values"):
        metastore.commit(CommitRequest("w", 1, (change,), attempt))


def test_a_changelog_needs_an_attempt(metastore: Metastore) -> None:
    table = make_table(metastore)
    change = make_change(table, changelog=ATTACHED, changelog_files=(make_file("0" * 32, "b"),))
    with pytest.raises(InvalidArgument, match="adds files but names no attempt"):
        metastore.commit(CommitRequest("w", 1, (change,)))
