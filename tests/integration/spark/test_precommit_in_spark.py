"""Small files of Spark's tasks, merged before their commit (semantics 6.4)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark
from lakelog.errors import DataCorrupted
from lakelog.sdk.tables.table import Table
from lakelog.spark.batch import commit, merging
from lakelog.spark.executor import write as tasks
from lakelog.storage.rewrite.commit_merge import MergeTask, merge_commit_files, merge_in_threads
from tests.integration.spark.spark_changelogs import (
    WAYS,
    Write,
    by_format,
    changelog_files,
    check_files,
    make,
    states,
)
from tests.integration.spark.spark_tables import MakeTable, live_files, stored_files
from tests.support.tables.keyed import emitted, replayed, rows, shown

pytestmark = pytest.mark.usefixtures("by_tasks")

PLAIN = pa.schema([("k", pa.int64()), ("p", pa.int32())])
ON = {"precommit-compact": "true"}


def many_tasks(spark: SparkSession, count: int = 12, rows: int = 1200) -> DataFrame:
    return spark.range(0, rows, numPartitions=count).selectExpr("id k", "cast(id % 3 as int) p")


def keys(table: Table) -> list[int]:
    return table.scan().to_arrow().column("k").to_pylist()


@pytest.mark.parametrize("by_job", [False, True])
def test_files_of_many_tasks_become_one_a_partition(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, by_job: bool
) -> None:
    if by_job:
        monkeypatch.setattr(merging, "MAX_DRIVER_FILES", 0)
    here = count_merges(monkeypatch)
    table = make_table(PLAIN, options=ON, partition_by=["p"])
    lakelog.spark.write(many_tasks(spark), table.name)
    assert table.files().num_rows == 3
    assert sorted(keys(table)) == list(range(1200))
    assert stored_files(table) == live_files(table), "what was replaced is gone"
    assert states(table) == ["APPEND"]
    assert bool(here) is not by_job, "merged where it should be"


def count_merges(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the driver program merges by itself."""
    seen: list[Any] = []

    def merge(*given: Any) -> Any:
        seen.append(given)
        return merge_in_threads(*given)

    monkeypatch.setattr(merging, "merge_in_threads", merge)
    return seen


@WAYS
def test_rows_of_buckets_keep_their_order(spark: SparkSession, make_table: MakeTable, write: Write) -> None:
    options = {**ON, "bucket": "2", "bucket-key": "p", "write-buffer-size": "4 kb", "target-file-size": "64 kb"}
    table = make_table(PLAIN, options=options)
    write(many_tasks(spark, count=4), table)
    assert table.files().num_rows == 2
    for part in range(3):
        found = [row["k"] for row in table.scan().to_arrow().to_pylist() if row["p"] == part]
        assert found == list(range(part, 1200, 3)), "by the number of the task, then as it came"


def three_tasks(spark: SparkSession, *lines: str) -> DataFrame:
    """Rows in their order, a third of them in each task."""
    records = [tuple(row.values()) for row in rows(*lines).to_pylist()]
    return spark.createDataFrame(
        spark.sparkContext.parallelize(records, 3), "pt bigint, k bigint, v bigint, _row_kind string"
    )


FIRST = ("+I 1|10|1", "+I 1|20|2", "+I 2|10|3", "+I 3|1|8", "+I 3|1|9", "+I 2|10|3")
SECOND = (
    *("+I 1|10|5", "-D 1|20|0", "+I 1|30|6"),
    *("+U 1|10|7", "-D 1|30|0", "+I 1|20|1"),
    *("+I 2|10|8", "-D 2|77|0", "+I 1|40|2"),
)


@WAYS
@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_a_keyed_table_has_one_run_a_bucket_and_emits_the_same(
    spark: SparkSession, make_table: MakeTable, write: Write, producer: str
) -> None:
    merged = make(make_table, producer, precommit_compact="true", bucket="1")
    plain = make(make_table, producer, bucket="1")
    for table in (merged, plain):
        write(three_tasks(spark, *FIRST), table)
        write(three_tasks(spark, *SECOND), table)
        check_files(table, spark)
    assert emitted(merged, 1) == emitted(plain, 1)
    assert shown(merged) == shown(plain) == {(1, 10): 7, (1, 20): 1, (1, 40): 2, (2, 10): 8, (3, 1): 9}
    if producer == "lookup":
        assert replayed(merged) == shown(merged)
    assert merged.files().num_rows == 5, "of the first commit three partitions, of the second two"
    if write is by_format:
        assert plain.files().num_rows > 5
    if producer == "input":
        assert len(changelog_files(merged, spark)) == 5
    assert states(merged) == ["APPEND", "APPEND"]


def test_a_task_merges_its_bucket_before_it_looks_old_rows_up(spark: SparkSession, make_table: MakeTable) -> None:
    """Positions of superseded rows that its flushes brought are told of the merged file."""
    options = {**ON, "bucket": "2", "changelog-producer": "lookup", "write-buffer-size": "2 kb"}
    table = make_table(
        pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())]), ("k",), options=options
    )
    for value in range(2):
        # Each key several times, far apart, so that several flushes bring it.
        frame = spark.range(0, 2000, numPartitions=3).selectExpr("id % 500 k", f"id * 10 + {value} v")
        lakelog.spark.write(frame, table.name)
    assert table.files().num_rows == 4
    found = {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert found == {k: (1500 + k) * 10 + 1 for k in range(500)}
    changed = table.changes(1).to_arrow()
    assert changed.num_rows == 1000
    check_files(table, spark)


def test_a_stream_merges_each_batch(spark: SparkSession, make_table: MakeTable, tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    (tmp_path / "in").mkdir()
    for number in range(6):
        pq.write_table(pa.table({"k": [number], "v": [0]}, schema=schema), tmp_path / "in" / f"{number}.parquet")
    stream = spark.readStream.schema("k bigint, v bigint").parquet(str(tmp_path / "in")).repartition(4, "k")
    for form, write in enumerate(("format", "function")):
        table = make_table(schema, options=ON)
        checkpoint = str(tmp_path / f"checkpoint-{form}")
        if write == "format":
            sink = stream.writeStream.format("lakelog").option("table", table.name).trigger(availableNow=True)
            query = sink.option("checkpointLocation", checkpoint).start()
        else:
            query = lakelog.spark.write_stream(
                stream, table.name, checkpoint_location=checkpoint, trigger={"availableNow": True}
            )
        query.awaitTermination(120)
        assert sorted(keys(table)) == list(range(6))
        assert table.files().num_rows == table.snapshots().num_rows == 1
        assert stored_files(table) == live_files(table)


def disturb(monkeypatch: pytest.MonkeyPatch, first_attempts: int) -> None:
    """Lets the first attempts of merging tasks fail once they have written."""
    whole = tasks.merge_in_task

    def merge(location: str, merger: Any, works: list[MergeTask]) -> Any:
        made = whole(location, merger, works)
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() < first_attempts:
            raise RuntimeError("a fault of the test")
        return made

    monkeypatch.setattr(merging, "MAX_DRIVER_FILES", 0)
    monkeypatch.setattr(merging, "merge_in_task", merge)


def test_a_merging_task_that_fails_at_first(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    disturb(monkeypatch, 1)
    table = make_table(PLAIN, options=ON, partition_by=["p"])
    lakelog.spark.write(many_tasks(spark), table.name)
    assert sorted(keys(table)) == list(range(1200))
    assert stored_files(table) == live_files(table), "what the failed attempts wrote must be gone"


def test_a_merging_job_that_fails_leaves_nothing(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    disturb(monkeypatch, 99)
    # One task with all files: of several, Spark lets those that still run write on once one has failed.
    monkeypatch.setattr(merging, "deal", lambda works, *_: [list(works)])
    table = make_table(PLAIN, options=ON, partition_by=["p"])
    with pytest.raises(Exception, match="a fault of the test"):
        lakelog.spark.write(many_tasks(spark), table.name)
    assert stored_files(table) == set()
    assert table.snapshots().num_rows == 0


@pytest.mark.parametrize("by_job", [False, True])
def test_a_file_that_is_gone_is_named(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, by_job: bool
) -> None:
    if by_job:
        monkeypatch.setattr(merging, "MAX_DRIVER_FILES", 0)

    def merge(merger: Any, store: Any, files: Any, *more: Any, **further: Any) -> Any:
        store.delete(files[3].path)
        return merge_commit_files(merger, store, files, *more, **further)

    monkeypatch.setattr(commit, "merge_commit_files", merge)
    table = make_table(PLAIN, options=ON, partition_by=["p"])
    with pytest.raises(DataCorrupted, match="is missing"):
        lakelog.spark.write(many_tasks(spark), table.name)
    assert stored_files(table) == set()


def test_control_without_the_option_each_task_leaves_its_files(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(PLAIN, partition_by=["p"])
    lakelog.spark.write(many_tasks(spark), table.name)
    assert table.files().num_rows == 36
    assert len(set(itertools.chain(keys(table)))) == 1200
