"""Writes a DataFrame into a table: Spark sorts rows into their buckets, Python tasks write files, one commit."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from lakelog.arguments import check_flag, parse_table_name, to_option_texts
from lakelog.client.column_merge import merge_columns
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.commit.log_content import plan_log_content
from lakelog.format.commit.request import Fence
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.options.declared.reads_and_writes import COMMIT_USER, FILL_MISSING, MERGE_SCHEMA
from lakelog.options.values import TableOptions, WriteOptions
from lakelog.results import WriteResult
from lakelog.spark.batch.commit import (
    Attempt,
    CommitParameters,
    Overwrite,
    abandon_attempt,
    commit_attempt,
    open_attempt,
    plan_copies,
    take_attempt,
)
from lakelog.spark.batch.given_rows import collect_given_rows
from lakelog.spark.batch.lookup import changelog_executor, load_base, to_lookup_task
from lakelog.spark.batch.merging import file_merger
from lakelog.spark.batch.row_layout import bring_to_buckets, bring_to_types, check_types, to_arrow
from lakelog.spark.batch.small_input import collect_small_input
from lakelog.spark.batch.write_parameters import (
    Mode,
    Partition,
    check_progress,
    find_applied,
    kind_source,
    resolve_overwrite,
)
from lakelog.spark.executor.uncommitted import UncommittedTask, plan_uncommitted
from lakelog.spark.executor.write import (
    WRITTEN_SCHEMA,
    LookupBase,
    RowConversion,
    WriteTask,
    convert_rows,
    row_writer,
    write_part,
)
from lakelog.spark.executor.written_files import WrittenFiles
from lakelog.spark.installation import installation_of
from lakelog.spark.session.arrow_batches import NarrowRows, run_on_batches
from lakelog.spark.session.remote import check_not_remote
from lakelog.spark.task_errors import lakelog_errors
from lakelog.storage.parquet.writer import plan_file_schema
from lakelog.storage.write.routing import to_routing
from lakelog.storage.write.row_normalizer import KindSource, check_keys_to_delete
from lakelog.system_tables.registry import refuse_write
from lakelog.writes.attempts_ahead import AttemptsAhead
from lakelog.writes.changelog.commit_changelog import find_producer
from lakelog.writes.commit_options import CommitOptions, read_commit_options, read_guards
from lakelog.writes.heartbeats import Heartbeats
from lakelog.writes.log_rows import plan_log_rows
from lakelog.writes.row_changes.unaltered import check_unaltered


def write(
    df: DataFrame,
    name: str,
    *,
    mode: Mode = "append",
    partition: Partition = None,
    fill_missing: bool = False,
    merge_schema: bool = False,
    options: Mapping[str, Any] | None = None,
    fence: Fence | None = None,
    **commit: Unpack[CommitOptions],
) -> WriteResult:
    """Writes rows into a table by one commit: either all of them become visible or none. Blocks until it is done.

    In tables with buckets, Spark brings the rows to their buckets and sorts them, and each bucket's rows become one
    sorted run. Of several rows of one key the last one stays, by the number of its partition in `df` and its place in
    it, or the one with the highest `sequence.field`. Columns are matched by name and cast if no value changes. The
    commit includes the changelog for the table's `changelog-producer`: the task that writes a bucket looks its old rows
    up.

    Args:
        df: The rows. A string column `_row_kind` of `+I -U +U -D` says what they do; without it they are `+I`, unless
            the table has a `rowkind.field`.
        name: `database.table`.
        mode: "append" adds rows, or replaces those of the same key; "delete" deletes by key, and needs only the key's
            columns; "overwrite" replaces the table or partitions of it.
        partition: For an overwrite. None: the whole table. A dict of values by partition column (some columns are
            enough): these partitions; the rows may leave the columns out. "dynamic": the partitions that contain the
            rows.
        fill_missing: Fill nullable columns that the rows leave out with NULL, also where the old row had a value; else
            missing columns are an error that names them. The option `fill-missing` does the same. Columns with a
            default get it in any case.
        merge_schema: Add columns that the rows have and the table lacks to the table, and widen its types to those of
            the rows where that loses nothing; implies `fill_missing`. The option `merge-schema` does the same. The
            change of the table is a step of its own, before the rows are written.
        options: Write options by key.
        fence: A lease that must still be held when the write is committed.
        **commit: Writer, watermark and so on: see `CommitOptions`.

    Returns:
        The snapshot, and whether the commit had been applied before.

    Raises:
        InvalidArgument: An argument, the columns, a type or a value do not fit; named.
        NotFound: There is no such table.
        CommitConflict: Another commit changed what this one assumed; nothing happened.
        Fenced: Another process holds the lease now.
        OutcomeUnknown: The answer was lost: repeat the write with the same `writer` and `identifier`.
    """
    return write_to(
        df,
        name,
        None,
        mode=mode,
        partition=partition,
        fill_missing=fill_missing,
        merge_schema=merge_schema,
        options=options,
        fence=fence,
        **commit,
    )


def write_to(
    df: DataFrame,
    name: str,
    expected: TableInfo | None,
    *,
    mode: Mode = "append",
    partition: Partition = None,
    fill_missing: bool = False,
    merge_schema: bool = False,
    options: Mapping[str, Any] | None = None,
    fence: Fence | None = None,
    **commit: Unpack[CommitOptions],
) -> WriteResult:
    """As `write`, of rows that were made for the columns that a table had.

    Args:
        df: As of `write`.
        name: As of `write`.
        expected: The table when the rows were made: by now other columns may have the names of these. None: any.
        mode: As of `write`.
        partition: As of `write`.
        fill_missing: As of `write`.
        merge_schema: As of `write`.
        options: As of `write`.
        fence: As of `write`.
        **commit: As of `write`.

    Raises:
        CommitConflict: Also if the table has other columns by now (reason `SCHEMA_CHANGED`).
    """
    spark = df.sparkSession
    check_not_remote(spark, "lakelog.spark.write", f"df.write.format('lakelog').option('table', '{name}')")
    installation = installation_of(spark)
    metastore = installation.metastore
    given = WriteOptions(to_option_texts({} if options is None else options))
    check_flag(fill_missing, "fill_missing")
    check_flag(merge_schema, "merge_schema")
    merges = merge_schema or given.get(MERGE_SCHEMA)
    fills = fill_missing or merges or given.get(FILL_MISSING)
    commit_user = given.get(COMMIT_USER)
    if commit.get("writer") is None and commit_user is not None:
        commit["writer"] = commit_user
    identity, commit_metadata, guards = read_commit_options("write", commit)
    parameters = CommitParameters(
        identity.writer,
        identity.identifier,
        identity.previous_identifier,
        commit_metadata.watermark_ms,
        commit_metadata.properties,
        commit_metadata.allow_empty,
        () if fence is None else (fence,),
        guards.meet(read_guards(given)),
    )
    refuse_write(name, "written")
    info = metastore.get_table(parse_table_name(name))
    overwrite = resolve_overwrite(mode, partition, info, given)
    if mode == "delete":
        check_keys_to_delete(str(info.name), TableOptions(info.options), df.columns)
    _check_streaming(df)
    check_progress(metastore, info, parameters)
    applied = find_applied(metastore, info, parameters)
    if applied is not None:
        return applied
    if expected is not None:
        check_unaltered(expected, info.table_uuid, info.schema)
    if merges and mode != "delete":
        info = _merge_columns(metastore, installation.attempts_ahead, info, df)
    if overwrite is None:
        attempt = take_attempt(installation.attempts_ahead, info, parameters.writer, parameters.identifier)
    else:
        attempt = open_attempt(metastore, info, parameters.writer, parameters.identifier)
    producer = find_producer(TableOptions(info.options), replaces=overwrite is not None)
    with ExitStack() as in_use:
        try:
            uncommitted = None if overwrite is not None else plan_uncommitted(metastore, info)
            if uncommitted is not None:
                # Its tasks send, but do not call the metastore.
                in_use.enter_context(Heartbeats(metastore).begin(attempt.attempt_id))
            with lakelog_errors():
                few_rows = None if uncommitted is not None else collect_few_rows(df, info.location)
            base = load_base(metastore, info) if producer == "lookup" and few_rows is None else None
            written = write_rows(spark, df, attempt, mode, overwrite, base, uncommitted, fills, few_rows)
        except BaseException:
            installation.attempts_ahead.forget(info.table_uuid)
            abandon_attempt(metastore, attempt)
            raise
        execute = changelog_executor(spark, to_lookup_task(attempt))
        merge = None if comes_by_bucket(info) and few_rows is None else file_merger(spark, info.location)
        return commit_attempt(metastore, attempt, written, parameters, overwrite, base, execute, merge)


def _merge_columns(metastore: Metastore, ahead: AttemptsAhead, info: TableInfo, df: DataFrame) -> TableInfo:
    """The table with all columns of the rows."""
    merged = merge_columns(metastore, info, to_arrow(df.drop(ROW_KIND_COLUMN)))
    if merged is not info:
        ahead.forget(info.table_uuid)
    return merged


def collect_few_rows(df: DataFrame, location: str) -> pa.Table | None:
    """The rows, if they are few and reach the driver program faster than tasks; None: tasks are to write them."""
    given = collect_given_rows(df, location)
    return collect_small_input(df, location) if given is None else given


def write_rows(
    spark: SparkSession,
    df: DataFrame,
    attempt: Attempt,
    mode: str,
    overwrite: Overwrite | None,
    base: LookupBase | None,
    uncommitted: UncommittedTask | None,
    fills: bool,
    few_rows: pa.Table | None,
) -> list[WrittenFiles]:
    """Writes the rows into files of an attempt, by tasks, or here if they are `few_rows`; returns what each wrote."""
    info = attempt.info
    options = TableOptions(info.options)
    routing = to_routing(info.schema, options)
    source = kind_source(mode, info, df.columns)
    if source is KindSource.DELETES and ROW_KIND_COLUMN in df.columns:
        raise InvalidArgument(
            f"mode='delete' deletes all rows given, so that a column '{ROW_KIND_COLUMN}' says nothing. Drop it, or use "
            "mode='append'.",
            metadata={"column": ROW_KIND_COLUMN},
        )
    static = None if overwrite is None else overwrite.static
    columns = info.schema.arrow if source is KindSource.INSERTS else plan_file_schema(info.schema, with_row_kind=False)
    by_bucket = comes_by_bucket(info) and few_rows is None
    names = (*info.schema.arrow.names, *([ROW_KIND_COLUMN] if ROW_KIND_COLUMN in df.columns else []))
    task = WriteTask(
        str(info.name),
        info.location,
        info.schema,
        options,
        attempt.attempt_id,
        source,
        by_bucket,
        static,
        names,
        copies=plan_copies(info, options, overwrite),
        log_rows=plan_log_rows(info, plan_log_content(info, options, replaces=overwrite is not None)),
        lookup=None if base is None else to_lookup_task(attempt),
        base=base,
        uncommitted=uncommitted,
    )
    fills = fills or source is KindSource.DELETES
    if few_rows is not None:
        check_types(df, columns, static, fill_missing=fills)
        conversion = RowConversion(columns, static, tuple(df.columns))
        return [write_part(task, convert_rows(conversion, iter(few_rows.to_batches())), 0, 0)]

    def write_by_tasks(narrow: NarrowRows | None) -> list[Row]:
        rows = bring_to_types(df, columns, static, fill_missing=fills, narrow=narrow)
        if by_bucket:
            rows = bring_to_buckets(rows, info.schema, routing)
        return rows.mapInArrow(row_writer(task), WRITTEN_SCHEMA).collect()

    with lakelog_errors():
        found = run_on_batches(spark, df, info.table_uuid, write_by_tasks)
    return [pickle.loads(row["written"]) for row in found]


def comes_by_bucket(info: TableInfo) -> bool:
    """Whether all rows of a bucket come to one task, and each task gets rows of one bucket."""
    return to_routing(info.schema, TableOptions(info.options)).bucket_count > 0


def _check_streaming(df: DataFrame) -> None:
    if df.isStreaming:
        raise InvalidArgument(
            "The DataFrame is a stream, which has no end to commit at. Use lakelog.spark.write_stream, or "
            "df.writeStream.format('lakelog')."
        )
