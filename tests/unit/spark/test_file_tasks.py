"""Which batches of a stream Spark's own reader gets, and how their files are spread over tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.spark.executor.read_changes import ChangePart, ChangeSplit, PlannedStates
from lakelog.spark.java.file_tasks import FileSlice, plan_file_tasks
from lakelog.spark.stream.splits import READ_BYTES
from lakelog.storage.parquet.live_file import LiveFile

MIB = 1 << 20
ROWS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])


def file(number: int, mib: int = 1, *, bucket: int = 0, keys: tuple[bytes, bytes] | None = None) -> LiveFile:
    low, high = keys or (None, None)
    return LiveFile(
        number, f"f{number}", b"", bucket, 0, 10, 0, mib * MIB, low, high, 0, added_snapshot=number + 1,
        order_snapshot=number + 1, order_ordinal=0, order_time_ms=0,
    )  # fmt: skip


def split(info: TableInfo, files: Sequence[LiveFile], **more: object) -> ChangeSplit:
    return ChangeSplit(info, tuple(files), {}, **more)  # type: ignore[arg-type]


def table(key: tuple[str, ...], options: dict[str, str]) -> TableInfo:
    schema = TableSchema(0, assign_field_ids(ROWS), key)
    return TableInfo("0" * 32, TableName("shop", "t"), "file:///w/t/", schema, options, 0, 0)


@pytest.fixture
def appended() -> TableInfo:
    return table((), {})


@pytest.fixture
def keyed() -> TableInfo:
    return table(("k",), {"bucket": "2"})


def paths(tasks: list[Sequence[FileSlice]] | None) -> list[list[str]] | None:
    return None if tasks is None else [[each.file.path for each in task] for task in tasks]


def test_all_cores_have_the_same_work(appended: TableInfo) -> None:
    splits = [split(appended, [file(number, 9) for number in range(8)])]
    tasks = plan_file_tasks(splits, cores=4)
    assert paths(tasks) == [["f0", "f1"], ["f2", "f3"], ["f4", "f5"], ["f6", "f7"]]


def test_little_work_is_one_task(appended: TableInfo) -> None:
    splits = [split(appended, [file(0)]), split(appended, [file(1)])]
    assert paths(plan_file_tasks(splits, cores=4)) == [["f0", "f1"]]


def test_a_task_reads_no_more_than_is_lost_when_it_fails(appended: TableInfo) -> None:
    tasks = plan_file_tasks([split(appended, [file(number, 100) for number in range(6)])], cores=2)
    assert paths(tasks) == [[f"f{number}"] for number in range(6)]


def test_a_large_file_is_cut_and_every_byte_read_once(appended: TableInfo) -> None:
    tasks = plan_file_tasks([split(appended, [file(0, 300)])], cores=2)
    assert tasks is not None
    parts = [part for task in tasks for part in task]
    assert len(tasks) > 1
    assert [part.start for part in parts] == [0, READ_BYTES, 2 * READ_BYTES]
    assert sum(part.length for part in parts) == 300 * MIB


def test_a_bucket_is_one_task_in_the_order_of_its_commits(keyed: TableInfo) -> None:
    changes = [file(number, 90, bucket=number % 2) for number in range(6)]
    tasks = plan_file_tasks([split(keyed, [], parts=(ChangePart(tuple(changes)),))], cores=8)
    assert paths(tasks) == [["f0", "f2", "f4"], ["f1", "f3", "f5"]]


def test_rows_to_be_looked_up_are_not_in_files(keyed: TableInfo) -> None:
    looked_up = ChangePart((file(0),), PlannedStates({}, ()))
    assert plan_file_tasks([split(keyed, [], parts=(ChangePart((file(1),)), looked_up))], cores=2) is None


def test_rows_as_they_were_written_must_be_merged_by_commit(keyed: TableInfo) -> None:
    assert plan_file_tasks([split(keyed, [file(0)])], cores=2) is None


@pytest.mark.parametrize(
    ("second", "is_in_files"),
    [
        (file(1, keys=(b"c", b"d")), True),
        (file(1, keys=(b"b", b"d")), False),
        (file(1, bucket=1, keys=(b"a", b"d")), True),
        (file(1), False),
        (replace(file(1, keys=(b"c", b"d")), delete_count=1), False),
    ],
    ids=["apart", "common keys", "another bucket", "unknown keys", "deletes"],
)
def test_first_rows_are_in_files_if_nothing_is_merged(keyed: TableInfo, second: LiveFile, is_in_files: bool) -> None:
    tasks = plan_file_tasks([split(keyed, [file(0, keys=(b"a", b"b")), second], rows_at=9)], cores=2)
    assert (tasks is not None) == is_in_files
    if tasks is not None:
        assert {part.snapshot_id for task in tasks for part in task} == {9}


def test_nothing_to_read_is_no_task(appended: TableInfo) -> None:
    assert plan_file_tasks([], cores=2) == []
    assert plan_file_tasks([split(appended, [])], cores=2) == []
