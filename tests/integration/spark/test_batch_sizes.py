"""The batches in which rows reach Python: their bytes are not counted, and yet no batch is large."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark
from lakelog.spark.session import arrow_batches
from lakelog.spark.session.arrow_batches import BYTES_CONF, ROWS_CONF, WIDE_BYTES, NarrowRows, run_on_batches
from tests.integration.spark.spark_tables import MakeTable, live_files, stored_files

LIMIT = 64 << 20


def measured(spark: SparkSession, rows: DataFrame, table_uuid: str) -> tuple[list[tuple[int, int]], int]:
    """Rows and bytes of each batch, and how many jobs were needed."""
    runs: list[NarrowRows | None] = []

    def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"count": [batch.num_rows], "size": [batch.nbytes]})

    def run(narrow: NarrowRows | None) -> list[tuple[int, int]]:
        runs.append(narrow)
        checked = rows if narrow is None else narrow.check(rows)
        found = checked.mapInArrow(sizes, "count bigint, size bigint").collect()
        return [(row["count"], row["size"]) for row in found]

    return run_on_batches(spark, rows, table_uuid, run), len(runs)


def test_narrow_rows_are_not_counted(spark: SparkSession) -> None:
    # The longest text that a narrow row has: no batch of such rows is larger than one that Spark counts.
    rows = spark.range(6000, numPartitions=1).selectExpr("id c0", f"repeat('x', {WIDE_BYTES}) c1")
    found, jobs = measured(spark, rows, uuid.uuid4().hex)
    assert jobs == 1
    assert [count for count, _ in found] == [4094, 1906]
    assert max(size for _, size in found) <= LIMIT * 1.01


def test_wide_rows_are_counted(spark: SparkSession) -> None:
    before = [spark.conf.get(name) for name in (ROWS_CONF, BYTES_CONF)]
    rows = spark.range(300, numPartitions=1).selectExpr("id c0", "IF(id < 10, 'x', repeat('x', 1000000)) c1")
    table_uuid = uuid.uuid4().hex
    found, jobs = measured(spark, rows, table_uuid)
    assert jobs == 2
    assert sum(count for count, _ in found) == 300
    assert max(size for _, size in found) <= LIMIT + 1_100_000
    # The table is known to have such rows.
    assert measured(spark, rows.limit(20), table_uuid)[1] == 1
    assert [spark.conf.get(name) for name in (ROWS_CONF, BYTES_CONF)] == before


def test_without_the_condition_batches_of_wide_rows_would_be_large(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NarrowRows, "check", lambda _, rows: rows)
    rows = spark.range(300, numPartitions=1).selectExpr("id c0", "repeat('x', 1000000) c1")
    found, jobs = measured(spark, rows, uuid.uuid4().hex)
    assert jobs == 1
    assert max(size for _, size in found) > 2 * LIMIT


def test_other_failures_are_not_repeated(spark: SparkSession) -> None:
    rows = spark.range(10, numPartitions=1).selectExpr("id c0", "CAST(raise_error('mine') AS STRING) c1")
    with pytest.raises(PySparkException, match="mine"):
        measured(spark, rows, uuid.uuid4().hex)


@pytest.mark.parametrize("key", [(), ("k",)])
@pytest.mark.parametrize("kind", ["string", "binary"])
def test_wide_rows_are_written_once(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...], kind: str
) -> None:
    schema = pa.schema(
        [pa.field("k", pa.int64(), nullable=False), ("v", pa.string() if kind == "string" else pa.binary())]
    )
    table = make_table(schema, key, options={"bucket": "2"} if key else {})
    jobs: list[NarrowRows | None] = []
    settings = arrow_batches.batch_settings

    def counting(spark: SparkSession, narrow: NarrowRows | None) -> contextlib.AbstractContextManager[None]:
        jobs.append(narrow)
        return settings(spark, narrow)

    monkeypatch.setattr(arrow_batches, "batch_settings", counting)
    rows = spark.range(6000, numPartitions=3).selectExpr(
        # Narrow rows come first, so that tasks have written some when the wide one comes.
        "CAST(id % 5000 AS INT) k",
        f"CAST(IF(id = 5999, repeat('x', 1000000), 'v' || id) AS {kind}) v",
    )
    lakelog.spark.write(rows.repartition(3), table.name)
    assert [narrow is None for narrow in jobs] == [False, True]
    lakelog.spark.write(rows.where("id < 10"), table.name)
    assert table.scan().count() == (5000 if key else 6010)
    assert table.scan(filter="k = 999").count() == (1 if key else 2)
    assert stored_files(table) == live_files(table)
