"""Removes rows of an append table by their positions and adds others, in one commit from Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from lakelog.client.metastore.metastore import Metastore
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
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile, to_live_files
from lakelog.storage.write.removed_rows import RemovedRows, RemovedRowsWriter

PLACE_COLUMNS: Final = (PATH_COLUMN, ROW_COLUMN)


def read_places(spark: SparkSession, plan: Plan) -> DataFrame:
    """Returns the rows of a plan of an append table, each with its place (`PLACE_COLUMNS`)."""
    files = to_live_files(plan.files)
    installation = installation_of(spark)
    with lakelog_errors():
        words = find_deleted_rows(spark, plan_sections(plan, files), installation.deletion_vectors)
        rows = read_live_rows(spark, installation, plan, files, words, with_places=True)
    return rows.toDF(*plan.schema.arrow.names, *PLACE_COLUMNS)


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
        places: The rows to remove: `PLACE_COLUMNS`, in any order, each once.
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
    paths = pa.array([file.path for file in files])
    numbers = np.asarray(pc.index_in(places.column(PATH_COLUMN), value_set=paths))
    positions = np.asarray(places.column(ROW_COLUMN), np.int64)
    order = np.lexsort((positions, numbers))
    numbers, positions = numbers[order], positions[order]
    starts = np.searchsorted(numbers, np.arange(len(files) + 1))
    for number, file in enumerate(files):
        if starts[number] < starts[number + 1]:
            remover.remove(file, positions[starts[number] : starts[number + 1]])
    return remover.finish()
