"""Tasks that fail, run twice or die leave nothing, and a commit that is repeated changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.errors import CommitConflict, InvalidArgument, LakelogError
from lakelog.results import WriteResult
from lakelog.sdk.tables.table import Table
from lakelog.spark.batch import table_write
from lakelog.spark.executor import write as tasks
from lakelog.spark.installation import installation_of
from tests.integration.spark.disturbed_writer import disturbed_writer
from tests.integration.spark.spark_tables import MakeTable, live_files, stored_files

pytestmark = pytest.mark.usefixtures("by_tasks")

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int32())])


def table_of(make_table: MakeTable, key: tuple[str, ...]) -> Table:
    return make_table(SCHEMA, key, options={"bucket": "2"} if key else {})


@pytest.mark.parametrize("fault", ["raise", "kill"])
@pytest.mark.parametrize("key", [(), ("k",)])
def test_a_task_that_fails_at_first(
    spark: SparkSession,
    make_table: MakeTable,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    key: tuple[str, ...],
    fault: str,
) -> None:
    table = table_of(make_table, key)
    marker = tmp_path / "failed"
    monkeypatch.setattr(table_write, "row_writer", disturbed_writer(fault, marker))
    lakelog.spark.write(spark.range(0, 1000, numPartitions=2).selectExpr("id k", "1 v"), table.name)
    assert marker.read_text() == "1", "the fault must have happened after the files were written"
    assert table.scan().count() == 1000
    assert stored_files(table) == live_files(table), "what the failed attempt wrote must be gone"


def test_a_job_that_fails(spark: SparkSession, make_table: MakeTable) -> None:
    table = table_of(make_table, ())
    rows = spark.range(0, 2000, numPartitions=4).selectExpr("id k", "if(id = 1500, 3000000000, id) v")
    with pytest.raises(InvalidArgument, match="Column 'v' has 3000000000"):
        lakelog.spark.write(rows, table.name)
    assert table.snapshots().num_rows == 0
    assert stored_files(table) == set()


def test_a_repeated_write(spark: SparkSession, make_table: MakeTable) -> None:
    """As after a driver that died between its commit and the answer."""
    table = table_of(make_table, ("k",))
    first = lakelog.spark.write(spark.range(10).selectExpr("id k", "1 v"), table.name, writer="w", identifier=7)
    assert (first.snapshot_id, first.already_applied) == (1, False)
    other = spark.range(5).selectExpr("id k", "2 v")
    assert lakelog.spark.write(other, table.name, writer="w", identifier=7) == WriteResult(1, True)
    lakelog.spark.write(spark.range(1).selectExpr("id k", "3 v"), table.name, writer="w", identifier=8)
    # No longer the last one: only the commit itself knows of it.
    assert lakelog.spark.write(other, table.name, writer="w", identifier=7) == WriteResult(1, True)
    assert sorted(set(table.scan().to_arrow().column("v").to_pylist())) == [1, 3]
    assert stored_files(table) == live_files(table)
    with pytest.raises(CommitConflict, match="meant to follow 9"):
        lakelog.spark.write(
            spark.range(5).selectExpr("id k", "2 v"), table.name, writer="w", identifier=10, previous_identifier=9
        )
    assert stored_files(table) == live_files(table)


def test_a_twin_of_a_task_is_not_committed(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A speculative task writes the same rows beside the first one; only one result reaches the driver."""
    table = table_of(make_table, ())

    def make(task: tasks.WriteTask) -> tasks.BatchFunction:
        whole = tasks.row_writer(task)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = list(batches)
            context = TaskContext.get()
            assert context is not None
            real = context._taskAttemptId
            context._taskAttemptId = 10_000 + (real or 0)
            list(whole(iter(rows)))
            context._taskAttemptId = real
            yield from whole(iter(rows))

        return write

    monkeypatch.setattr(table_write, "row_writer", make)
    lakelog.spark.write(spark.range(100).selectExpr("id k", "1 v"), table.name)
    assert table.scan().count() == 100
    assert stored_files(table) == live_files(table)


def test_a_commit_that_is_refused(spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(make_table, ())

    def drop_attempt(*arguments: Any) -> Any:
        found = run(*arguments)
        installation_of(spark).metastore.abandon_attempt(arguments[2].attempt_id)
        return found

    run = table_write.write_rows
    monkeypatch.setattr(table_write, "write_rows", drop_attempt)
    with pytest.raises(LakelogError):
        lakelog.spark.write(spark.range(100).selectExpr("id k", "1 v"), table.name)
    assert table.snapshots().num_rows == 0
    assert stored_files(table) == set()
