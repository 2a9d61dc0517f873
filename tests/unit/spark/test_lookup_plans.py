"""How a planned state reaches tasks, and how lookups are shared among them."""

from __future__ import annotations

import dataclasses
import random

import pyarrow as pa
import pytest

from lakelog.format.tables.files import FILE_SCHEMA, DataFile
from lakelog.format.tables.plan import Plan
from lakelog.format.tables.snapshot import Snapshot, SnapshotKind
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.spark.batch.lookup import MAX_PLANNED_FILES, deal, pack_base
from lakelog.storage.lookup.bucket_changelog import BucketLookup, pick_touched, to_added, to_lookups
from lakelog.storage.parquet.live_file import LiveFile

SCHEMA = TableSchema(0, assign_field_ids(pa.schema([pa.field("k", pa.int64(), nullable=False)])), ("k",))
TABLE = TableInfo("u" * 32, TableName("shop", "t"), "file:///w/", SCHEMA, {}, 0, 7)
SNAPSHOT = Snapshot(7, "s", "p", SnapshotKind.APPEND, 0, 1_700_000_000_000, None, 0, 0, 0, 0, 0, 0, "w", 1)


def live(path: str, bucket: int = 0, first: bytes | None = b"a", last: bytes | None = b"z") -> LiveFile:
    return LiveFile(1, path, b"", bucket, 0, 10, 0, 100, first, last, 0, 1, 1, 0, 0)


def added(path: str, bucket: int, first: bytes | None, last: bytes | None, partition: bytes = b"") -> DataFile:
    return DataFile(path, partition, bucket, 0, 10, 0, 100, first, last, 0)


def plan_of(files: list[LiveFile], snapshot: Snapshot | None = SNAPSHOT) -> Plan:
    entries = [dataclasses.asdict(file) for file in files]
    return Plan(TABLE, SCHEMA, {0: SCHEMA}, snapshot, files=pa.Table.from_pylist(entries, FILE_SCHEMA))


def test_a_packed_base_gives_each_task_its_own_bucket() -> None:
    files = [live("x", 0), live("y", 1), live("z", 1, None, None)]
    base = pack_base(plan_of(files))
    assert (base.snapshot_id, base.committed_at_ms) == (7, 1_700_000_000_000)
    assert [base.list_files(bucket) for bucket in range(3)] == [files[:1], files[1:], []]
    nothing = pack_base(plan_of([], None))
    assert (nothing.snapshot_id, nothing.committed_at_ms, nothing.list_files(0)) == (0, 0, [])


def test_the_largest_base_stays_below_what_travels_by_itself() -> None:
    """Spark sends a function of more than a megabyte to each executor as a broadcast."""
    draw = random.Random(1)
    files = [
        live(f"data/{draw.randbytes(16).hex()}/00000-{n}-00001-000-0.parquet", n % 8, draw.randbytes(9), b"z" * 9)
        for n in range(MAX_PLANNED_FILES)
    ]
    assert len(pack_base(plan_of(files)).files) < 1 << 20


@pytest.mark.parametrize(
    ("first", "last", "touched"),
    [
        (b"d", b"f", "bc"),
        (b"a", b"b", "ac"),
        (b"c", b"c", "bc"),
        (None, b"b", "ac"),
        (b"g", None, "c"),
        (None, None, "abc"),
    ],
)
def test_only_files_that_can_hold_a_key_are_looked_at(first: bytes | None, last: bytes | None, touched: str) -> None:
    files = [live("a", 0, b"a", b"b"), live("b", 0, b"c", b"f"), live("c", 0, b"b", None)]
    found = pick_touched([live("new", 0, first, last)], files)
    assert "".join(file.path for file in found) == touched


def test_a_file_without_bounds_beside_others_is_taken_for_any_key() -> None:
    new = [live("n", 0, b"x", b"y"), live("m", 0, None, None)]
    assert pick_touched(new, [live("a", 0, b"a", b"b")])


def test_lookups_are_by_bucket_and_name_what_they_rest_on() -> None:
    files = [
        added("n0", 0, b"a", b"b"),
        added("n1", 1, b"a", b"b"),
        added("n2", 0, b"a", b"c"),
        added("p", 0, b"a", b"b", b"p"),
    ]
    lookups = to_lookups("x", to_added(files, 7, 55), [live("o0", 0), live("o1", 1), live("far", 1, b"x", b"y")])
    assert [(each.name, each.bucket, each.base) for each in lookups] == [
        ("x-00000", (b"", 0), ("o0",)),
        ("x-00001", (b"", 1), ("o1",)),
        ("x-00002", (b"p", 0), ()),
    ]
    assert [(file.path, file.order_snapshot, file.order_ordinal, file.order_time_ms) for file in lookups[0].files] == [
        ("n0", 8, 0, 55),
        ("n2", 8, 2, 55),
    ]
    assert lookups[0].row_count == 20


@pytest.mark.parametrize("count", [1, 3, 8, 100])
def test_dealt_lookups_are_all_there_and_the_largest_apart(count: int) -> None:
    sizes = [5, 90, 1, 80, 2, 70, 3, 4]
    lookups = [
        BucketLookup(str(size), (b"", size), (dataclasses.replace(live("n"), row_count=size),), ()) for size in sizes
    ]
    shares = deal(lookups, lambda each: each.row_count, count)
    assert len(shares) == min(count, len(sizes))
    assert all(shares)
    assert sorted(each.row_count for share in shares for each in share) == sorted(sizes)
    assert [share[0].row_count for share in shares][:3] == [90, 80, 70][: len(shares)]
