"""Pictures of huge tables: a picture's own data stays small, and says what it leaves out."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from lakelog.client.metastore.metastore import SnapshotPage
from lakelog.format.tables.files import FILE_SCHEMA
from lakelog.format.tables.plan import Plan
from lakelog.format.tables.snapshot import Snapshot, SnapshotKind
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema
from lakelog.pictures.amplification import pick_newest, sum_written, to_spans
from lakelog.pictures.bucket_runs import MOST_BOXES, MOST_RUNS, to_runs
from lakelog.pictures.buckets import MOST_BUCKETS, to_buckets
from lakelog.pictures.files import to_files
from lakelog.pictures.history import MOST_SNAPSHOTS, History, load_history
from lakelog.pictures.levels import draw_levels
from lakelog.pictures.timeline import Timeline, draw_timeline, to_commits
from lakelog.sdk.tables.table import Table
from tests.unit.pictures.drawn import check_readable, draw_both

KEY = pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"})
SCHEMA = TableSchema(0, pa.schema([KEY]), ("id",))


def snapshot(number: int, **more: Any) -> Snapshot:
    values: dict[str, Any] = {
        "snapshot_id": number,
        "snapshot_uuid": "",
        "parent_uuid": "",
        "kind": SnapshotKind.APPEND,
        "schema_id": 0,
        "committed_at_ms": 1_700_000_000_000 + number * 1000,
        "watermark_ms": None,
        "total_rows": number,
        "total_files": number,
        "total_bytes": number,
        "added_rows": 1,
        "added_files": 1,
        "removed_files": 0,
        "writer": "w",
        "identifier": number,
    }
    return Snapshot(**(values | more))


def plan_of(count: int, bucket: Any, level: Any) -> Plan:
    numbers = np.arange(count)
    keys = pa.array([b"\x01" + int(each).to_bytes(8, "big") for each in range(1000)])
    columns: dict[str, Any] = {
        "file_id": numbers,
        "path": pa.array(numbers).cast(pa.string()),
        "partition": pa.nulls(count, pa.binary()).fill_null(b""),
        "bucket": bucket,
        "level": level,
        "row_count": np.full(count, 10),
        "delete_count": np.zeros(count, np.int64),
        "size_bytes": 1000 + numbers % 5000,
        "min_key": keys.take(pa.array(numbers % 1000)),
        "max_key": keys.take(pa.array(numbers % 1000)),
        "schema_id": np.zeros(count, np.int32),
        "added_snapshot": numbers + 1,
        "order_snapshot": numbers + 1,
        "order_ordinal": np.zeros(count, np.int32),
        "order_time_ms": numbers,
        "deletion_vector_path": pa.nulls(count, pa.string()),
    }
    files = pa.table({field.name: pa.array(columns[field.name], field.type) for field in FILE_SCHEMA})
    info = TableInfo("0" * 32, TableName("shop", "orders"), "file:///t/", SCHEMA, {"bucket": "512"}, count, 0)
    return Plan(table=info, schema=SCHEMA, file_schemas={}, snapshot=snapshot(count), files=files)


def test_of_many_snapshots_only_the_newest_are_requested() -> None:
    limits = []

    def list_snapshots(table_uuid: str, *, limit: int, newest: bool) -> SnapshotPage:
        limits.append((limit, newest))
        return SnapshotPage(tuple(snapshot(100_000 - limit + 1 + each) for each in range(limit)), 100_000, 1, 1)

    metastore = SimpleNamespace(list_snapshots=list_snapshots)
    table = cast(Table, SimpleNamespace(context=SimpleNamespace(metastore=metastore), uuid="t"))
    history = load_history(table)
    assert limits == [(MOST_SNAPSHOTS, True)]
    assert (len(history.snapshots), history.earlier) == (MOST_SNAPSHOTS, 100_000 - MOST_SNAPSHOTS)
    lag = history.measure_lag(5, 1_700_000_000_000 + 100_001_000)
    assert (lag.snapshots, lag.rows, lag.is_least) == (99_995, MOST_SNAPSHOTS, True)

    data = Timeline("shop.orders", to_commits(history.snapshots), history.earlier)
    for picture in draw_both(draw_timeline, data):
        check_readable(picture)
        assert "98,000 earlier snapshots not shown" in picture.description
        assert len(picture.to_svg()) < 60_000


def test_of_a_million_files_there_are_sums_alone() -> None:
    plan = plan_of(1_000_000, np.arange(1_000_000) % 512, np.arange(1_000_000) // 512 % 6)
    buckets = to_buckets("shop.orders", plan)
    assert (buckets.total, buckets.files, len(buckets.buckets)) == (512, 1_000_000, MOST_BUCKETS)
    assert [each.runs for each in buckets.buckets] == sorted((each.runs for each in buckets.buckets), reverse=True)
    files = to_files("shop.orders", plan, 128 << 20)
    assert (files.files, files.small, files.more_groups) == (1_000_000, 1_000_000, 500)
    assert len(files.bins) <= 24
    for picture in draw_both(draw_levels, buckets):
        check_readable(picture)
        assert "Shown: the 24 with the most sorted runs." in picture.description
        assert len(picture.to_svg()) < 60_000


def test_a_bucket_with_many_runs_and_files_has_few_boxes() -> None:
    count = 20_000
    level = np.where(np.arange(count) < 3_000, 0, 1 + np.arange(count) % 3)
    data = to_runs("shop.orders", plan_of(count, np.zeros(count), level))
    assert data.files == count
    assert len(data.runs) == MOST_RUNS
    assert data.more_runs == 3_000 - (MOST_RUNS - 3)
    assert [run.level for run in data.runs][-4:] == [0, 1, 2, 3]
    assert data.runs[0].added_snapshot == 3_000, "the newest run is first"
    for run in data.runs:
        assert len(run.boxes) <= MOST_BOXES
        assert sum(box.files for box in run.boxes) == run.files
        assert sum(box.bytes for box in run.boxes) == run.bytes
        assert all(0 <= box.start <= box.end <= 1 for box in run.boxes)
    for picture in draw_both(draw_levels, data):
        check_readable(picture)
        assert "and 2,979 older runs of level 0" in picture.to_svg()


@pytest.mark.parametrize(("most", "count"), [(0, 1), (2, 1), (3, 1), (5, 2), (6, 3), (100, 3)])
def test_sizes_are_requested_of_as_many_snapshots_as_have_added_few_files(most: int, count: int) -> None:
    history = History((snapshot(1, added_files=1), snapshot(2, added_files=2), snapshot(3, added_files=3)), 3, 0)
    assert [each.snapshot_id for each in pick_newest(history, most)] == [1, 2, 3][-count:]


def test_a_table_without_snapshots_has_none_to_count() -> None:
    assert pick_newest(History((), 0, 0), 10) == ()


def test_a_file_counts_where_it_was_written_first() -> None:
    files = pa.table(
        {"path": ["b", "a", "b", "c", "old"], "added_snapshot": [12, 11, 13, 13, 13], "size_bytes": [5, 3, 5, 7, 9]}
    )
    assert sum_written(files, pa.array(["old"]), 11, 13).tolist() == [3, 5, 7]


def test_spans_have_all_bytes_of_commits_and_compactions() -> None:
    snapshots = tuple(
        dataclasses.replace(snapshot(each), kind=SnapshotKind.COMPACT if each % 4 == 0 else SnapshotKind.APPEND)
        for each in range(1, 101)
    )
    spans = to_spans(snapshots, np.arange(1, 101))
    assert sum(each.compaction_bytes for each in spans) == sum(range(4, 101, 4))
    assert sum(each.commit_bytes + each.compaction_bytes for each in spans) == 5050
    assert (sum(each.commits for each in spans), sum(each.compactions for each in spans)) == (75, 25)
    assert spans[0].start_ms == snapshots[0].committed_at_ms
