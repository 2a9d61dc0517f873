"""Points and small ranges: rows that the driver program reads itself, because launching a scan would take longer.

A condition on the key leaves few row groups of a sorted file. Reading these takes milliseconds. Spark's scan of the
same files lists them, plans splits and starts tasks before it opens the first; and a table with overlapping files first
needs the superseded rows of all keys. So the driver program reads the footers. If they promise few rows, it merges and
reads just those row groups, in a few threads, and passes the rows to Spark as a local relation.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakelog.format.filter.condition import Filter
from lakelog.format.tables.plan import Plan
from lakelog.options.values import TableOptions
from lakelog.reads.reading import to_scan_columns
from lakelog.spark.connection import open_table_store
from lakelog.spark.types import to_spark_schema
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.parquet.live_file import to_live_files
from lakelog.storage.scan.file_scan import FileScan
from lakelog.storage.scan.small_read import read_if_small

MAX_FILES: Final = 64
"""Files whose footers are read; each is a round trip to an object store."""

MAX_READ_BYTES: Final = 256 << 20
"""Size of row groups, uncompressed: about what two of Spark's tasks read, so more tasks would gain nothing."""

MAX_RESULT_BYTES: Final = 8 << 20
"""A local relation travels with each query that uses it."""


def read_few_rows(spark: SparkSession, plan: Plan, condition: Filter) -> DataFrame | None:
    """Returns all columns of a plan's live rows that fulfil a condition, if these are few; None: they may be many.

    Blocks on storage; launches no job.

    Args:
        spark: The session.
        plan: What to read.
        condition: The condition as lakelog resolves it on the plan's schema.

    Raises:
        DataCorrupted: A file is damaged or missing; named.
    """
    schema = plan.schema
    scan = FileScan(
        open_table_store(plan.table.location),
        to_live_files(plan.files),
        schema,
        to_scan_columns(tuple(schema.arrow.names), schema, condition),
        to_merge_policy(schema, TableOptions(plan.table.options)) if schema.primary_key else None,
    )
    rows = read_if_small(scan, max_files=MAX_FILES, max_read_bytes=MAX_READ_BYTES, max_result_bytes=MAX_RESULT_BYTES)
    if rows is None:
        return None
    # SUBTLE: for a nested column without any chunk, as with no rows, Spark does not know the type.
    # Spark also rejects NULLs in lists of structs or times if the rows are a slice of a larger batch, so they are
    # copied.
    rows = rows.take(pa.array(np.arange(rows.num_rows))) if rows.num_rows else rows.schema.empty_table()
    return spark.createDataFrame(rows, to_spark_schema(schema.arrow, nullable=True))
