"""Removes rows of an append table by their positions and adds others, in one commit from Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.tables.plan import Plan
from lakelog.format.tables.table import TableInfo
from lakelog.results import WriteResult
from lakelog.spark.batch.commit import (
    CommitParameters,
    Overwrite,
    abandon_attempt,
    commit_attempt,
    open_attempt,
)
from lakelog.spark.batch.deletion_vectors import find_deleted_rows, plan_sections
from lakelog.spark.batch.live_rows import PATH_COLUMN, ROW_COLUMN
from lakelog.spark.batch.merging import file_merger
from lakelog.spark.batch.table_write import collect_few_rows, comes_by_bucket, write_rows
from lakelog.spark.connection import open_table_store
from lakelog.spark.installation import installation_of
from lakelog.spark.older_files.live_rows import read_live_rows
from lakelog.spark.task_errors import lakelog_errors
from lakelog.storage.merging.deletion_vectors import RowIndices
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile, to_live_files
from lakelog.storage.write.removed_rows import RemovedRows, RemovedRowsWriter

PLACE_COLUMNS: Final = (PATH_COLUMN, ROW_COLUMN)
_POSITIONS_COLUMN: Final = "positions"

MOST_REMOVED_ROWS: Final = 1 << 26
"""Rows of an append table that one change removes: the driver program holds 8 bytes of each."""

_GROUP_BITS: Final = 20
"""A group has positions of a part of a file: 8 MB at most, so that no task has to hold a whole file's."""


def read_places(spark: SparkSession, plan: Plan) -> DataFrame:
    """Returns the rows of a plan of an append table, each with its place (`PLACE_COLUMNS`)."""
    files = to_live_files(plan.files)
    installation = installation_of(spark)
    with lakelog_errors():
        words = find_deleted_rows(spark, plan_sections(plan, files), installation.deletion_vectors)
        rows = read_live_rows(spark, installation, plan, files, words, with_places=True)
    return rows.toDF(*plan.schema.arrow.names, *PLACE_COLUMNS)


def check_removed_rows(name: object, count: int) -> None:
    """Raises InvalidArgument if a change of an append table removes more rows than it can hold. Pure."""
    if count <= MOST_REMOVED_ROWS:
        return
    raise InvalidArgument(
        f"The change would remove or update {count:,} rows of {name} at once, and takes {MOST_REMOVED_ROWS:,} in a "
        "table without a primary key. Nothing was written. Make several changes, for instance one for each partition; "
        "or delete with the SDK (table.delete_where), which has no such limit.",
        reason="TOO_MANY_REMOVED_ROWS",
        metadata={"table": str(name), "rows": str(count), "limit": str(MOST_REMOVED_ROWS)},
    )


def collect_places(rows: DataFrame) -> pa.Table:
    """Brings the places of rows to the driver program: a path, and some of the positions in its file, in each row.

    Args:
        rows: Has `PLACE_COLUMNS`; NULL in rows that are at no place.
    """
    group = sf.shiftright(sf.col(ROW_COLUMN), _GROUP_BITS)
    groups = rows.select(*PLACE_COLUMNS).dropna().groupBy(PATH_COLUMN, group.alias("part"))
    with lakelog_errors():
        return groups.agg(sf.collect_list(ROW_COLUMN).alias(_POSITIONS_COLUMN)).drop("part").toArrow()


def replace_rows(
    spark: SparkSession,
    metastore: Metastore,
    info: TableInfo,
    rows: DataFrame,
    places: pa.Table,
    files: Sequence[LiveFile],
    parameters: CommitParameters,
) -> WriteResult:
    """Removes rows and adds others, by one commit. Blocks.

    Args:
        spark: The session.
        metastore: Receives the commit.
        info: The table.
        rows: The new rows.
        places: The rows to remove, each once, as of `collect_places`.
        files: The files that they are in.
        parameters: The commit's identity, guards and metadata.

    Raises:
        CommitConflict: A file is not live any more, or a guard does not hold; nothing happened.
    """
    attempt = open_attempt(metastore, info, parameters.writer, parameters.identifier)
    try:
        removed = _write_positions(open_table_store(info.location), attempt.attempt_id, places, files)
        overwrite = Overwrite(removed_rows=removed)
        with lakelog_errors():
            few_rows = collect_few_rows(rows, info.location)
        written = write_rows(spark, rows, attempt, "append", overwrite, None, None, False, few_rows)
    except BaseException:
        abandon_attempt(metastore, attempt)
        raise
    merge = None if comes_by_bucket(info) and few_rows is None else file_merger(spark, info.location)
    return commit_attempt(metastore, attempt, written, parameters, overwrite, merge=merge)


def _write_positions(store: ObjectStore, attempt_id: str, places: pa.Table, files: Sequence[LiveFile]) -> RemovedRows:
    remover = RemovedRowsWriter(store, attempt_id)
    positions = places.column(_POSITIONS_COLUMN)
    groups: dict[str, list[RowIndices]] = {}
    for number, path in enumerate(places.column(PATH_COLUMN).to_pylist()):
        groups.setdefault(path, []).append(np.asarray(positions[number].values, np.int64))
    for file in files:
        if file.path in groups:
            remover.remove(file, np.sort(np.concatenate(groups[file.path])))
    return remover.finish()
