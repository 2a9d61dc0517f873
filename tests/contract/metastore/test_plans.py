"""Which files a plan lists."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.commit.request import CommitRequest, RemoveEverything
from lakelog.format.keys.encoding import encode_key
from lakelog.format.tables.files import FILE_SCHEMA, STATISTICS_FIELD, ColumnStatistics
from lakelog.format.tables.packed_statistics import PackedStatistics
from lakelog.format.tables.plan import AtSnapshot, AtTime, InRange, PlanRequest
from lakelog.format.tables.predicate import AllOf, AnyOf, Comparison, Operator, Predicate
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from tests.support.metastore.making import append, compaction, day, key, make_change, make_file, make_table

DAY, ID, V = 1, 2, 3


def number(value: float) -> bytes:
    return encode_key([pa.scalar(value, pa.float64())])


def names(metastore: Metastore, table: TableInfo, **request: object) -> str:
    plan = metastore.plan(PlanRequest(table.table_uuid, **request))  # type: ignore[arg-type]
    assert plan.files.schema.equals(FILE_SCHEMA)
    return "".join(path.split("/")[-1][:-8] for path in plan.files.column("path").to_pylist())


def test_a_table_without_snapshots_has_an_empty_plan(metastore: Metastore) -> None:
    table = make_table(metastore)
    plan = metastore.plan(PlanRequest(table.table_uuid))
    assert plan.snapshot is None
    assert plan.files.num_rows == 0
    assert plan.files.schema.equals(FILE_SCHEMA)
    assert plan.schema == table.schema
    with pytest.raises(NotFound, match="has no snapshot 1; it has no snapshot yet"):
        metastore.plan(PlanRequest(table.table_uuid, at=AtSnapshot(1)))
    with pytest.raises(NotFound, match=r"no snapshot at or before .*; it has no snapshot yet\."):
        metastore.plan(PlanRequest(table.table_uuid, at=AtTime(0)))


def test_a_plan_returns_all_of_a_file(metastore: Metastore) -> None:
    table = make_table(metastore, partitioned=True)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    file = make_file(
        attempt,
        partition=day("mon"),
        bucket=3,
        row_count=2**40,
        delete_count=5,
        size_bytes=2**41,
        min_key=key(-1),
        max_key=key(2**62),
        statistics=(ColumnStatistics(2, 0, b"a", b"b"),),
    )
    metastore.commit(CommitRequest("w", 1, (make_change(table, [file]),), attempt))
    plan = metastore.plan(PlanRequest(table.table_uuid))
    assert plan.snapshot == metastore.list_snapshots(table.table_uuid).snapshots[0]
    assert plan.table == metastore.get_table(table.name)
    assert dict(plan.file_schemas) == {0: table.schema}
    assert plan.files.to_pylist() == [
        {
            "file_id": 1,
            "path": file.path,
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
            "order_time_ms": plan.snapshot.committed_at_ms,
            "deletion_vector_path": None,
        }
    ]


@pytest.fixture
def history(metastore: Metastore) -> TableInfo:
    """a; a b; (b) c: a is compacted into c; then d; then nothing at all; then e."""
    table = make_table(metastore)
    append(metastore, table, 1, names="a")
    append(metastore, table, 2, names="b")
    attempt = metastore.stage_attempt([table.table_uuid], "c").attempt_id
    metastore.commit(CommitRequest("c", 1, (compaction(table, [make_file(attempt, "c")], (1,)),), attempt))
    append(metastore, table, 3, names="d")
    metastore.commit(
        CommitRequest("o", 1, (make_change(table, kind=SnapshotKind.OVERWRITE, remove=RemoveEverything()),))
    )
    append(metastore, table, 4, names="e")
    return table


def test_time_travel_by_id(metastore: Metastore, history: TableInfo) -> None:
    states = [names(metastore, history, at=AtSnapshot(n)) for n in range(1, 7)]
    assert states == ["a", "ab", "cb", "cbd", "", "e"]
    assert names(metastore, history) == "e"
    with pytest.raises(NotFound, match="has no snapshot 7; it has the snapshots 1 to 6"):
        metastore.plan(PlanRequest(history.table_uuid, at=AtSnapshot(7)))


def test_time_travel_by_time(metastore: Metastore) -> None:
    """7.5: the newest snapshot at or before the time."""
    table = make_table(metastore)
    times = []
    for n in range(3):
        times.append(append(metastore, table, n, names=str(n)).results[0].committed_at_ms)
        while metastore.acquire_lease(f"tick {n}", "t", 1000).remaining_ms > 995:
            pass
    assert times[0] < times[1] < times[2]
    assert names(metastore, table, at=AtTime(times[1])) == "01"
    assert names(metastore, table, at=AtTime(times[2] - 1)) == "01"
    assert names(metastore, table, at=AtTime(times[2] + 10**6)) == "012"
    with pytest.raises(NotFound, match=rf"the earliest one kept is 1, of .*Z \({times[0]}\)"):
        metastore.plan(PlanRequest(table.table_uuid, at=AtTime(times[0] - 1)))


def test_what_a_range_added(metastore: Metastore, history: TableInfo) -> None:
    plan = metastore.plan(PlanRequest(history.table_uuid, at=InRange(1, 4)))
    assert [snapshot.snapshot_id for snapshot in plan.range_snapshots] == [2, 3, 4]
    assert plan.snapshot == plan.range_snapshots[-1]
    assert names(metastore, history, at=InRange(1, 4)) == "cbd"
    assert names(metastore, history, at=InRange(0, 6)) == "acbde"
    assert names(metastore, history, at=InRange(4, 5)) == ""
    with pytest.raises(NotFound, match="has no snapshot 9"):
        metastore.plan(PlanRequest(history.table_uuid, at=InRange(2, 9)))


def test_order_is_that_of_partition_bucket_and_place(metastore: Metastore) -> None:
    table = make_table(metastore, partitioned=True)
    n = 0
    for value in ("tue", None, "mon"):
        for bucket in (2, 0, 2):
            n += 1
            append(metastore, table, n, names=str(n), partition=day(value), bucket=bucket)
    assert names(metastore, table) == "546" + "879" + "213"


def test_files_are_left_out_by_partition_bucket_and_key(metastore: Metastore) -> None:
    table = make_table(metastore, partitioned=True)
    for n, (value, bucket, low, high) in enumerate(
        [("mon", 0, 0, 9), ("mon", 1, 10, 19), ("tue", 0, 5, 14), ("tue", 1, None, None), (None, 0, 100, None)]
    ):
        append(
            metastore,
            table,
            n,
            names="abcde"[n],
            partition=day(value),
            bucket=bucket,
            min_key=None if low is None else key(low),
            max_key=None if high is None else key(high),
        )
    assert sorted(names(metastore, table, partitions=(day("mon"), day(None), day("never")))) == list("abe")
    assert sorted(names(metastore, table, buckets=(0,))) == list("ace")
    assert sorted(names(metastore, table, buckets=(1,), partitions=(day("tue"),))) == ["d"]
    assert sorted(names(metastore, table, first_key=key(15))) == list("bde")
    assert sorted(names(metastore, table, last_key=key(9))) == list("acd")
    assert sorted(names(metastore, table, first_key=key(10), last_key=key(14))) == list("bcd")
    assert sorted(names(metastore, table, buckets=(0,), first_key=key(10), at=InRange(0, 3))) == ["c"]
    assert sorted(names(metastore, table, buckets=(0,), at=AtSnapshot(3))) == list("ac")


PREDICATES: list[tuple[Predicate, str]] = [
    (Comparison(DAY, Operator.IN, (day("mon"), day("sun"))), "ab"),
    (Comparison(DAY, Operator.IS_NULL), "e"),
    (Comparison(DAY, Operator.IS_NOT_NULL), "abcd"),
    (Comparison(DAY, Operator.NOT_EQUAL, (day("mon"),)), "cd"),
    (Comparison(DAY, Operator.GREATER, (day("mon"),)), "cd"),
    (Comparison(DAY, Operator.LESS, (day("mon"),)), ""),
    (Comparison(ID, Operator.GREATER_OR_EQUAL, (key(10),)), "bcde"),
    (Comparison(ID, Operator.IN, (key(5), key(7))), "acde"),
    (Comparison(ID, Operator.LESS, (key(5),)), "ade"),
    (AllOf((Comparison(DAY, Operator.IN, (day("mon"),)), Comparison(ID, Operator.GREATER, (key(9),)))), "b"),
    (AnyOf((Comparison(DAY, Operator.IN, (day("mon"),)), Comparison(ID, Operator.GREATER, (key(9),)))), "abcde"),
    (
        AnyOf(
            (
                AllOf((Comparison(DAY, Operator.IN, (day("mon"),)), Comparison(ID, Operator.IN, (key(1),)))),
                AllOf((Comparison(DAY, Operator.IN, (day("tue"),)), Comparison(ID, Operator.IN, (key(6),)))),
            )
        ),
        "acd",
    ),
    (Comparison(99, Operator.IN, (b"whatever",)), "abcde"),
    # Not part of the key: a file without a match may hide an older row that matches.
    (Comparison(V, Operator.GREATER, (number(1e9),)), "abcde"),
]


@pytest.mark.parametrize(("predicate", "expected"), PREDICATES)
def test_files_are_left_out_by_predicate(metastore: Metastore, predicate: Predicate, expected: str) -> None:
    table = make_table(metastore, partitioned=True)
    for n, (value, low, high) in enumerate(
        [("mon", 0, 9), ("mon", 10, 19), ("tue", 5, 14), ("tue", None, None), (None, None, None)]
    ):
        statistics: tuple[ColumnStatistics, ...] = (ColumnStatistics(V, 0, number(0.0), number(1.0)),)
        if low is not None and high is not None:
            statistics += (ColumnStatistics(ID, 0, key(low), key(high)),)
        append(metastore, table, n, names="abcde"[n], partition=day(value), statistics=statistics if n < 4 else ())
    assert "".join(sorted(names(metastore, table, predicate=predicate))) == expected


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (Comparison(V, Operator.GREATER, (number(10.0),)), "bcf"),
        (Comparison(V, Operator.IN, (number(0.5),)), "af"),
        (Comparison(V, Operator.IS_NULL), "def"),
        (Comparison(V, Operator.IS_NOT_NULL), "abcef"),
        (Comparison(V, Operator.NOT_EQUAL, (number(7.0),)), "abcf"),
        (Comparison(V, Operator.LESS_OR_EQUAL, (number(0.0),)), "af"),
        (Comparison(V, Operator.IN, (number(float("nan")),)), "cf"),
    ],
)
def test_statistics_of_any_column_leave_out_files_of_append_tables(
    metastore: Metastore, predicate: Predicate, expected: str
) -> None:
    table = make_table(metastore, keyed=False)
    known = [
        ColumnStatistics(V, 0, number(0.0), number(1.0)),
        ColumnStatistics(V, 0, number(20.0), number(30.0)),
        ColumnStatistics(V, 0, number(40.0), number(float("nan"))),
        ColumnStatistics(V, 10, None, None),
        ColumnStatistics(V, 1, number(7.0), number(7.0)),
    ]
    for n, statistics in enumerate(known):
        append(metastore, table, n, names="abcde"[n], statistics=(ColumnStatistics(ID, 0, None, None), statistics))
    append(metastore, table, 5, names="f")
    assert "".join(sorted(names(metastore, table, predicate=predicate))) == expected


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        (Comparison(0, Operator.IS_NULL), "field_id is 0"),
        (Comparison(1, Operator.IS_NULL, (b"x",)), "IS NULL takes none"),
        (Comparison(1, Operator.IN), "IN takes at least one"),
        (Comparison(1, Operator.LESS, (b"x", b"y")), "'<' takes exactly one"),
        (AllOf(()), "0 operands"),
    ],
)
def test_bad_predicates(metastore: Metastore, predicate: Predicate, message: str) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    with pytest.raises(InvalidArgument, match=message):
        metastore.plan(PlanRequest(table.table_uuid, predicate=predicate))


def test_statistics_and_levels(metastore: Metastore) -> None:
    table = make_table(metastore)
    attempt = metastore.stage_attempt([table.table_uuid], "w").attempt_id
    statistics = (ColumnStatistics(ID, 3, key(1), key(9)), ColumnStatistics(V, 0, None, None))
    files = [make_file(attempt, "a"), make_file(attempt, "b", statistics=statistics)]
    metastore.commit(CommitRequest("w", 1, (make_change(table, files),), attempt))
    attempt = metastore.stage_attempt([table.table_uuid], "c").attempt_id
    metastore.commit(CommitRequest("c", 1, (compaction(table, [make_file(attempt, "c")], (1,), level=2),), attempt))
    found = metastore.plan(PlanRequest(table.table_uuid, with_statistics=True)).files
    assert found.schema.equals(FILE_SCHEMA.append(STATISTICS_FIELD))
    first, second = found.column(STATISTICS_FIELD.name).to_pylist()
    assert first is None
    assert tuple(PackedStatistics(second)) == statistics
    for level, name in ((0, "b"), (2, "c"), (1, "")):
        assert names(metastore, table, levels=(level,)) == name
    empty = metastore.plan(PlanRequest(table.table_uuid, levels=(1,), with_statistics=True)).files
    assert empty.schema.equals(FILE_SCHEMA.append(STATISTICS_FIELD))
    with pytest.raises(InvalidArgument, match="levels"):
        metastore.plan(PlanRequest(table.table_uuid, InRange(0, 1), levels=(0,)))
    with pytest.raises(InvalidArgument, match="levels"):
        metastore.plan(PlanRequest(table.table_uuid, levels=(-1,)))
