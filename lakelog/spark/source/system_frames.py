"""System tables as DataFrames: metadata is read at once, changes by tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakelog.arguments import to_option_texts
from lakelog.options.declared.reads_and_writes import INCREMENTAL_BETWEEN
from lakelog.reads.reading import check_names
from lakelog.spark.connection import SparkConnection
from lakelog.spark.planning import understand_condition
from lakelog.spark.source.system_reader import open_context
from lakelog.spark.types import to_spark_schema
from lakelog.system_tables.declaration import OfRows
from lakelog.system_tables.registry import parse_system_name
from lakelog.system_tables.rows.changes import find_change_range
from lakelog.system_tables.scan import SystemRead, plan_system_read, read_metadata


def read_system_table(
    spark: SparkSession,
    connection: SparkConnection,
    name: str,
    columns: Sequence[str] | None,
    condition: str | None,
    states: Mapping[str, Any],
    options: Mapping[str, Any] | None,
) -> DataFrame:
    """Returns a system table's rows; arguments and errors as of `lakelog.spark.read_table`.

    Args:
        spark: The session.
        connection: To the metastore.
        name: The system table.
        columns: Names of columns; None: all.
        condition: Spark SQL's condition on its columns.
        states: The arguments `snapshot_id`, `timestamp` and `tag`.
        options: Scan options by key.
    """
    context = open_context(connection)
    found = parse_system_name(name)
    info = None if found.table is None else context.metastore.get_table(found.table)
    read = plan_system_read(context, found, info, options=options, **states)
    chosen = check_names(columns, read.returned.names, str(found))
    understood = understand_condition(condition, read.returned, _time_zone(spark))
    if understood is not None:
        read = plan_system_read(context, found, info, filter=understood, options=options, **states)
    if condition is None or understood is not None:
        read = read.with_columns(chosen)
    if isinstance(found.declaration, OfRows):
        after, until = find_change_range(context.metastore, read.table, read.wanted)
        rows = _read_changes(spark, read, understood, {INCREMENTAL_BETWEEN.key: f"{after},{until}"})
    else:
        rows = spark.createDataFrame(read_metadata(context, read), to_spark_schema(read.returned, nullable=True))
    if condition is not None and understood is None:
        rows = rows.where(condition)
    return rows.select(*["`" + each.replace("`", "``") + "`" for each in chosen])


def _read_changes(
    spark: SparkSession, read: SystemRead, condition: str | None, options: Mapping[str, str]
) -> DataFrame:
    given = {"table": str(read.name), "columns": json.dumps(read.returned.names), **options}
    given |= {} if condition is None else {"filter": condition}
    return spark.read.format("lakelog").options(**to_option_texts(given)).load()


def _time_zone(spark: SparkSession) -> str:
    return spark.conf.get("spark.sql.session.timeZone") or "UTC"
