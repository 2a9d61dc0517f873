"""The live rows of a plan, whatever schemas its files were written with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakelog.format.tables.plan import Plan
from lakelog.spark.batch.live_rows import scan_live_rows
from lakelog.spark.executor.write import Words
from lakelog.spark.installation import Installation
from lakelog.spark.older_files.native_versions import to_sql_default
from lakelog.spark.older_files.reading import read_by_tasks
from lakelog.spark.types import to_spark_schema
from lakelog.storage.parquet.live_file import LiveFile


def read_live_rows(
    spark: SparkSession,
    installation: Installation,
    plan: Plan,
    files: Sequence[LiveFile],
    words: Mapping[str, Words],
    *,
    with_places: bool = False,
) -> DataFrame:
    """Returns all columns of the rows of a plan's files: by Spark's own scan, or where that is wrong by Python tasks.

    Args:
        spark: The session.
        installation: Its installation.
        plan: What to read.
        files: The plan's files.
        words: By a file's path: the bits of its deleted rows.
        with_places: As of `scan_live_rows`.
    """
    schema, location = plan.schema, plan.table.location
    written = {file.schema_id for file in files}
    native = installation.native_versions.pick(installation.metastore, plan.table.table_uuid, schema, written)
    others = [file for file in files if file.schema_id not in native]
    own = [file for file in files if file.schema_id in native]
    rows = scan_live_rows(spark, schema, location, own, words, with_places=with_places)
    if any(to_sql_default(column) is not None for column in schema.arrow):
        rows = _without_defaults(rows, plan)
    if not others:
        return rows
    read = read_by_tasks(spark, schema, location, others, words, with_places=with_places)
    return rows.unionAll(read) if own else read


def _without_defaults(rows: DataFrame, plan: Plan) -> DataFrame:
    """The rows without the defaults in their columns' metadata, which Spark would take for those of a copy."""
    fields = to_spark_schema(plan.schema.arrow, nullable=True).fields
    names = ["`" + field.name.replace("`", "``") + "`" for field in fields]
    plain = [sf.col(name).alias(field.name, metadata=field.metadata) for name, field in zip(names, fields, strict=True)]
    return rows.select(*plain, *rows.columns[len(fields) :])
