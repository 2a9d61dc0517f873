"""What the tests of changelogs from Spark share: ways to write, and what lies in the store afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark
from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.sdk.tables.table import Table
from lakelog.spark.installation import installation_of
from tests.integration.spark.spark_tables import MakeTable, live_files, stored_files
from tests.support.tables.keyed import SCHEMA, rows

Write = Callable[[DataFrame, Table], Any]


def by_function(frame: DataFrame, table: Table) -> None:
    lakelog.spark.write(frame, table.name)


def by_format(frame: DataFrame, table: Table) -> None:
    frame.write.format("lakelog").option("table", table.name).mode("append").save()


def by_sql(frame: DataFrame, table: Table) -> None:
    """INSERT INTO a view over the data source."""
    spark = frame.sparkSession
    frame.createOrReplaceTempView("given")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW target USING lakelog OPTIONS (table '{table.name}')")
    spark.sql("INSERT INTO target SELECT * FROM given")


WAYS = pytest.mark.parametrize("write", [by_function, by_format])


def make(make_table: MakeTable, producer: str, **options: str) -> Table:
    more = {key.replace("_", "-").replace("--", "."): value for key, value in options.items()}
    return make_table(
        SCHEMA, ("pt", "k"), partition_by=["pt"], options={"changelog-producer": producer, "bucket": "2", **more}
    )


def frame_of(spark: SparkSession, *partitions: tuple[str, ...]) -> DataFrame:
    """Rows whose order is known: each tuple is a partition."""
    frames = [spark.createDataFrame(rows(*lines)).coalesce(1) for lines in partitions]
    frame = frames[0]
    for each in frames[1:]:
        frame = frame.unionAll(each)
    return frame


def changelog_files(table: Table, spark: SparkSession) -> set[str]:
    metastore = installation_of(spark).metastore
    last = metastore.list_snapshots(table.uuid).latest_snapshot_id
    plan = metastore.plan(PlanRequest(table.uuid, InRange(0, last), changelog=True))
    return set(plan.files.column("path").to_pylist())


def check_files(table: Table, spark: SparkSession) -> None:
    """Nothing lies around but data, changelogs and positions of superseded rows."""
    files = installation_of(spark).metastore.plan(PlanRequest(table.uuid)).files
    deletion_vectors = {path for path in files.column("deletion_vector_path").to_pylist() if path}
    assert stored_files(table) == live_files(table) | changelog_files(table, spark) | deletion_vectors


def states(table: Table) -> list[str]:
    return table.snapshots().column("kind").to_pylist()
