"""Small writes: rows of a small file. The driver program writes them, because Python tasks would take longer.

Python tasks take 0.1 s however few rows they write: Spark analyzes what they return, and sends each one its code. So
where a DataFrame is one file of a few hundred KB, with projections and conditions, a job of Java alone reads the rows,
and the driver program writes them like rows that it brings itself (`given_rows.py`).

Nothing that is read here is large, whatever the file says: Spark reads one row more than are few, and ends the job at
the first wide row. Then tasks write, and what was read in vain was little, since the file is small. The DataFrame has
one partition, so its rows come in their order.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from lakelog.spark.batch import given_rows
from lakelog.spark.batch.given_rows import are_written_here, iterate_nodes
from lakelog.spark.batch.row_layout import to_arrow
from lakelog.spark.session.arrow_batches import is_wide_row, plan_narrow_rows

MAX_INPUT_BYTES: Final = 512 << 10
"""Size of the files: fewer rows than `given_rows.MAX_ROWS` if each takes at least a hundred bytes there."""

_FILES: Final = "LogicalRelation"
_ROW_BY_ROW: Final = frozenset({_FILES, "Project", "Filter", "GlobalLimit", "LocalLimit"})
"""Nodes of an optimized plan that make at most one row of a row, without Python."""


def collect_small_input(df: DataFrame, location: str) -> pa.Table | None:
    """Returns the rows of a DataFrame, in their order, if it reads them from a small file; None: any other.

    Args:
        df: The rows.
        location: The table's location, as of `collect_given_rows`.

    Raises:
        InvalidArgument: A type has no Arrow type.
    """
    narrow = plan_narrow_rows(df.schema)
    if narrow is None or not are_written_here(df, location) or not _reads_little(df):
        return None
    if len({name.casefold() for name in df.columns}) < len(df.columns):
        return None
    to_arrow(df)
    limited = narrow.check(df).limit(given_rows.MAX_ROWS + 1)
    execution: Any = limited._jdf.queryExecution()
    if not all(name in _ROW_BY_ROW for name in iterate_nodes(execution.optimizedPlan())):
        return None
    plan = execution.executedPlan()
    # Spark brings the rows of several partitions together by a shuffle, which knows no order.
    if plan.nodeName() != "CollectLimit" or plan.child().execute().getNumPartitions() > 1:
        return None
    try:
        rows = limited.toArrow()
    except Exception as error:
        if is_wide_row(error):
            return None
        raise
    return rows if rows.num_rows <= given_rows.MAX_ROWS else None


def _reads_little(df: DataFrame) -> bool:
    """Whether all rows come from one relation of files that are small."""
    leaves: Any = df._jdf.queryExecution().analyzed().collectLeaves()
    if leaves.size() != 1 or leaves.apply(0).nodeName() != _FILES:
        return False
    relation = leaves.apply(0).relation()
    is_files: bool = relation.getClass().getSimpleName() == "HadoopFsRelation"
    # Of the files as they are listed, not by the statistics of a catalog.
    return is_files and int(relation.location().sizeInBytes()) <= MAX_INPUT_BYTES
