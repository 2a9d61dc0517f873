"""Random tables, written and read by Spark, show what lists and dicts show."""

from __future__ import annotations

import datetime as dt
import json
import os
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakelog
import lakelog.spark
from lakelog.embedded.stack import EmbeddedStack
from lakelog.results import WriteResult
from lakelog.sdk.catalog import Catalog
from lakelog.spark.types import to_spark_schema
from tests.property.tables.altered import AlteredHistory
from tests.property.tables.compacted import CompactedHistory
from tests.support.random_tables.history import History
from tests.support.random_tables.keyed_changes import check_keyed_changes
from tests.support.spark.write_ways import written_by_tasks

TABLES = int(os.environ.get("LAKELOG_RANDOM_SPARK_TABLES", "1"))
FIRST_SEED = int(os.environ.get("LAKELOG_RANDOM_SEED", "1"))


class SparkHistory(History):
    """Half of the writes and all of the reads are Spark's."""

    def __init__(self, spark: SparkSession, catalog: Catalog, name: str, seed: int) -> None:
        super().__init__(catalog, name, seed)
        self._spark = spark

    def send(self, call: str, data: pa.Table, more: dict[str, Any]) -> WriteResult:
        if self.random.random() < 0.5:
            return super().send(call, data, more)
        mode: Any = call if call in ("delete", "overwrite") else "append"
        frame = self._spark.createDataFrame(data, to_spark_schema(data.schema, nullable=True))
        partition = more.get("partition")
        # The option for a partition is JSON, which has no bytes.
        has_bytes = isinstance(partition, dict) and any(isinstance(value, bytes) for value in partition.values())
        if call != "delete" and not has_bytes and not more.keys() - {"partition"}:
            return self._save(call, frame, partition)
        with written_by_tasks(self.random.random() < 0.5):
            result = lakelog.spark.write(frame, self.table.name, mode=mode, **more)
        return WriteResult(result.snapshot_id, result.already_applied)

    def read(self, names: list[str] | None, condition: str, snapshot_id: int | None) -> pa.Table:
        wanted = super().read(names, condition, snapshot_id)
        if not self.model.snapshots or names == []:
            return wanted
        if self.random.random() < 0.5:
            frame = lakelog.spark.read_table(
                self._spark, self.table.name, columns=names, filter=condition, snapshot_id=snapshot_id
            )
        else:
            options = {"table": self.table.name, "filter": condition}
            options |= {} if names is None else {"columns": json.dumps(names)}
            options |= {} if snapshot_id is None else {"scan.snapshot-id": str(snapshot_id)}
            frame = self._spark.read.format("lakelog").options(**options).load()
        return frame.toArrow()

    def _save(self, call: str, frame: DataFrame, partition: Any) -> WriteResult:
        """By the data source, which knows of no identifiers."""
        before = self.table.snapshots().num_rows
        writer = frame.write.format("lakelog").option("table", self.table.name)
        if call != "overwrite":
            writer.mode("append").save()
        elif isinstance(partition, dict):
            written = {
                name: str(value) if isinstance(value, dt.date | Decimal) else value for name, value in partition.items()
            }
            writer.option("partition", json.dumps(written)).mode("overwrite").save()
        else:
            writer.option("dynamic-partition-overwrite", str(partition == "dynamic").lower()).mode("overwrite").save()
        after = self.table.snapshots().num_rows
        return WriteResult(after if after > before else None, False)


class KeyedSparkHistory(SparkHistory):
    """One of a table whose commits bring a changelog."""

    keyed_share = 1.0

    def __init__(self, spark: SparkSession, catalog: Catalog, name: str, seed: int, producer: str) -> None:
        self.producers = (producer,)
        super().__init__(spark, catalog, name, seed)


class CompactedSparkHistory(SparkHistory, CompactedHistory):
    """One of a table whose files are put together in between."""


class AlteredSparkHistory(SparkHistory, AlteredHistory):
    """One of a table whose columns change in between."""


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + TABLES))
def test_a_table_of_spark_shows_what_lists_show(spark: SparkSession, stack: EmbeddedStack, seed: int) -> None:
    with lakelog.connect(stack.target) as catalog:
        catalog.create_database("sparkrandom", if_not_exists=True)
        history = SparkHistory(spark, catalog, f"sparkrandom.t{seed}", seed)
        for _ in range(4):
            history.step()
        history.check_newest()
        history.check_reads(4)
        history.check_listing()
        check_keyed_changes(history, 4)


@pytest.mark.spark
@pytest.mark.parametrize("producer", ["input", "lookup"])
@pytest.mark.parametrize("seed", range(FIRST_SEED + 1000, FIRST_SEED + 1000 + TABLES))
def test_its_changelog_is_what_was_written_or_the_difference_of_its_states(
    spark: SparkSession, stack: EmbeddedStack, seed: int, producer: str
) -> None:
    with lakelog.connect(stack.target) as catalog:
        catalog.create_database("sparkrandom", if_not_exists=True)
        history = KeyedSparkHistory(spark, catalog, f"sparkrandom.{producer}{seed}", seed, producer)
        for _ in range(6):
            history.step()
        history.check_newest()
        check_keyed_changes(history, 6)


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(FIRST_SEED + 2000, FIRST_SEED + 2000 + TABLES))
def test_a_compacted_table_shows_the_same(spark: SparkSession, stack: EmbeddedStack, seed: int) -> None:
    with lakelog.connect(stack.target) as catalog:
        catalog.create_database("sparkrandom", if_not_exists=True)
        history = CompactedSparkHistory(spark, catalog, f"sparkrandom.c{seed}", seed)
        for _ in range(8):
            history.step()
        history.check_newest()
        history.check_reads(6)
        check_keyed_changes(history, 4)


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(FIRST_SEED + 3000, FIRST_SEED + 3000 + TABLES))
def test_a_table_whose_columns_change_shows_the_same(spark: SparkSession, stack: EmbeddedStack, seed: int) -> None:
    with lakelog.connect(stack.target) as catalog:
        catalog.create_database("sparkrandom", if_not_exists=True)
        history = AlteredSparkHistory(spark, catalog, f"sparkrandom.a{seed}", seed)
        for _ in range(10):
            history.step()
        history.check_newest()
        history.check_reads(8)
        history.forget_then()
        check_keyed_changes(history, 4)
