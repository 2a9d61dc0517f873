"""Rows of files that Spark's own reader would show wrongly: Python tasks read them, until they are compacted."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType

from lakelog.format.types.schema import TableSchema
from lakelog.spark.batch.live_rows import PATH_COLUMN, ROW_COLUMN
from lakelog.spark.executor.file_rows import FileRows, reader_of
from lakelog.spark.executor.write import Words
from lakelog.spark.executor_check import mark_version
from lakelog.spark.types import to_spark_schema
from lakelog.storage.parquet.live_file import LiveFile

_MAX_TASKS: Final = 10_000


def read_by_tasks(
    spark: SparkSession,
    schema: TableSchema,
    location: str,
    files: Sequence[LiveFile],
    words: Mapping[str, Words],
    *,
    with_places: bool = False,
) -> DataFrame:
    """Returns all columns of the rows of files, without rows whose bit is set. Launches no job.

    Args:
        spark: The session.
        schema: The schema to read with.
        location: The table's location.
        files: Files to read, at least one.
        words: By a file's path: the bits of its deleted rows.
        with_places: Also return where each row is: `PATH_COLUMN`, the path inside the table, and `ROW_COLUMN`.
    """
    mark_version(spark.sparkContext)
    works = [pickle.dumps(FileRows(location, schema, file, words.get(file.path), with_places)) for file in files]
    tasks = spark.createDataFrame(pa.table({"work": pa.array(works, pa.binary())}))
    output = to_spark_schema(schema.arrow, nullable=True)
    if with_places:
        output = output.add(PATH_COLUMN, StringType()).add(ROW_COLUMN, LongType())
    return tasks.repartition(min(len(files), _MAX_TASKS)).mapInArrow(reader_of(output), output)
