"""Reading a table as a DataFrame: planned by the metastore, scanned by Spark's own Parquet reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from lakelog.annotations import TimeLike
from lakelog.arguments import to_option_texts
from lakelog.client.leased_reads import LeasedReads
from lakelog.errors import FILE_MISSING, DataCorrupted, InvalidArgument
from lakelog.format.filter.condition import Filter
from lakelog.format.tables.plan import Plan
from lakelog.options.values import ScanOptions
from lakelog.spark.batch.deletion_vectors import find_deleted_rows, plan_sections
from lakelog.spark.batch.few_rows import read_few_rows
from lakelog.spark.installation import Installation, installation_of
from lakelog.spark.older_files.live_rows import read_live_rows
from lakelog.spark.planning import check_spark_columns, find_table_and_levels, plan_read, resolve_spark_state
from lakelog.spark.session.remote import check_not_remote
from lakelog.spark.source.system_frames import read_system_table
from lakelog.spark.source.system_reader import is_planned_as_system_table
from lakelog.spark.task_errors import lakelog_errors
from lakelog.storage.parquet.live_file import to_live_files


def read_table(
    spark: SparkSession,
    name: str,
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,  # noqa: A002
    snapshot_id: int | None = None,
    timestamp: TimeLike | None = None,
    tag: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Returns a table's rows at one snapshot, fixed now: the DataFrame shows the same rows whenever it runs.

    The metastore plans the read. If a condition on the key leaves few row groups, their rows are read at once, here.
    Otherwise the superseded rows of overlapping files are found, here if that is little, else by a job with one Python
    task for each group of such files; later reads of the session reuse the result. The rest is Spark's Parquet scan,
    into which Spark pushes the columns and conditions of the query. As with all of Spark's file sources every column is
    nullable.

    Args:
        spark: A session in which lakelog is installed.
        name: `database.table`, or a system table such as `shop.orders$files` or `sys.tables`.
        columns: Names of the columns to return, in this order; None: all.
        filter: Spark SQL's condition on the table's columns. If its meaning is clear, it also excludes partitions,
            files and row groups; the rows are those of `.where(filter)`.
        snapshot_id: Read the state at this snapshot.
        timestamp: Read the state at the newest snapshot committed at or before this time: as of `lakelog.Table.scan`.
        tag: Read the state at the snapshot that has this tag.
        options: Scan options by key, for instance `{"scan.snapshot-id": "3"}`.

    Raises:
        InvalidArgument: An argument is not possible; named, with the remedy.
        NotFound: There is no such table, snapshot or tag.
        SnapshotExpired: The snapshot has expired.
        DataCorrupted: A file that had to be read is damaged.
        InvalidArgument: The files are on S3, and Spark has no classes for it (reason `S3A_MISSING`).
    """
    instead = f"spark.read.format('lakelog').option('table', '{name}')"
    check_not_remote(spark, "lakelog.spark.read_table", instead)
    installation = installation_of(spark)
    if is_planned_as_system_table(name):
        states = {"snapshot_id": snapshot_id, "timestamp": timestamp, "tag": tag}
        try:
            return read_system_table(spark, installation.connection, name, columns, filter, states, options)
        except AnalysisException as error:
            if filter is None:
                raise
            raise _translate_filter(error, name) from error
    given = ScanOptions(to_option_texts({} if options is None else options))
    state = resolve_spark_state(snapshot_id, timestamp, given, tag)
    info, levels = find_table_and_levels(installation.metastore, name)
    time_zone = read_time_zone(spark)
    plan, parsed = plan_read(installation.metastore, info, state, filter, time_zone=time_zone, levels=levels)
    chosen = check_spark_columns(columns, plan.schema, name)
    rows = read_plan(spark, installation, plan, parsed)
    if filter is not None:
        try:
            rows = rows.where(filter)
        except AnalysisException as error:
            raise _translate_filter(error, name) from error
    return rows if columns is None else rows.select(*["`" + each.replace("`", "``") + "`" for each in chosen])


def read_plan(spark: SparkSession, installation: Installation, plan: Plan, condition: Filter | None) -> DataFrame:
    """All columns of a plan's live rows; without some of those that do not fulfil a condition, or with all of them.

    Args:
        spark: The session.
        installation: Its installation.
        plan: What to read.
        condition: The condition on the plan's schema; None: there is none, or lakelog does not understand it.

    Raises:
        DataCorrupted: A file that had to be read is damaged.
        InvalidArgument: The files are on S3, and Spark has no classes for it (reason `S3A_MISSING`).
    """
    name = str(plan.table.name)
    try:
        with _leased(installation, plan), lakelog_errors():
            rows = None if condition is None else read_few_rows(spark, plan, condition)
            # SUBTLE: with new identities; else a join of two reads of one table would compare columns with themselves.
            return _live_rows(spark, installation, plan).toDF(*plan.schema.arrow.names) if rows is None else rows
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise _file_missing(error, name) from error
        raise
    except Exception as error:
        if _NO_S3A in str(error):
            raise _without_s3a(name) from error
        raise


_NO_S3A: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem not found"
"""Java's words where Spark has no classes for S3."""

S3A_MISSING: Final = "S3A_MISSING"
"""The reason of an error when Spark cannot read S3 by itself."""


def _without_s3a(name: str) -> InvalidArgument:
    return InvalidArgument(
        f"Spark itself scans the files of {name}, and has no classes for S3. Make the session with "
        "spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION (that of Spark's hadoop-client) and the settings "
        f"spark.hadoop.fs.s3a.*, or use spark.read.format('lakelog').option('table', '{name}'), which needs neither.",
        reason=S3A_MISSING,
        metadata={"table": name},
    )


def _leased(installation: Installation, plan: Plan) -> AbstractContextManager[None]:
    """Leases the snapshot while the driver program reads it; the scan of the DataFrame comes later."""
    if plan.snapshot is None:
        return nullcontext()
    return LeasedReads(installation.metastore).reading(plan.table, plan.snapshot.snapshot_id)


def _live_rows(spark: SparkSession, installation: Installation, plan: Plan) -> DataFrame:
    """All columns of a plan's live rows; the same plan gives the same DataFrame again, which saves Spark's analysis."""
    # A file of an append table is read otherwise once rows of it are removed.
    names = zip(*(plan.files.column(name).to_pylist() for name in ("path", "deletion_vector_path")), strict=True)
    key = (spark, plan.table.location, plan.schema.digest, tuple(names))
    known = installation.frames.get(key)
    if known is not None:
        return known
    files = to_live_files(plan.files)
    words = find_deleted_rows(spark, plan_sections(plan, files), installation.deletion_vectors)
    rows = read_live_rows(spark, installation, plan, files, words)
    installation.frames.put(key, rows)
    return rows


def read_time_zone(spark: SparkSession) -> str:
    """The session's time zone, in which Spark evaluates conditions."""
    return spark.conf.get("spark.sql.session.timeZone") or "UTC"


def _file_missing(error: AnalysisException, name: str) -> DataCorrupted:
    return DataCorrupted(
        f"A data file of {name} is missing, though the table refers to it: it was deleted by hand, or Spark does "
        f"not see the folder where it is. {str(error)[:300]}",
        reason=FILE_MISSING,
    )


def _translate_filter(error: AnalysisException, name: str) -> InvalidArgument:
    """Turns Spark's complaint about a condition into an error of lakelog."""
    # After the first line Spark shows its plan, or repeats the condition.
    first = str(error).strip().partition("\n")[0].rstrip(";.")
    return InvalidArgument(
        f"The filter of {name} is not possible: {first[:500]}.",
        reason="FILTER_INVALID",
        metadata={"field": "filter"},
    )
