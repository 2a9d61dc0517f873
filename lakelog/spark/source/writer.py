"""Writes for `format("lakelog")`: batches, and batches of a stream, each applied once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakelog.arguments import parse_table_name
from lakelog.client.column_merge import merge_columns
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.commit.log_content import plan_log_content
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.cast import check_schema
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.options.declared.reads_and_writes import (
    COMMIT_USER,
    DYNAMIC_PARTITION_OVERWRITE,
    FILL_MISSING,
    IF_SNAPSHOT,
    IF_UNCHANGED,
    MERGE_SCHEMA,
)
from lakelog.options.values import TableOptions
from lakelog.spark.batch.commit import (
    Attempt,
    CommitParameters,
    Overwrite,
    abandon_attempt,
    commit_attempt,
    open_attempt,
    plan_copies,
)
from lakelog.spark.batch.write_parameters import (
    QUERY_ID_PROPERTY,
    check_progress,
    find_applied,
    kind_source,
    resolve_overwrite,
)
from lakelog.spark.connection import SparkConnection, open_metastore
from lakelog.spark.executor.uncommitted import UncommittedTask, plan_uncommitted
from lakelog.spark.executor.write import WriteTask, write_rows
from lakelog.spark.executor.written_files import WrittenFiles
from lakelog.spark.source.options import SourceOptions
from lakelog.spark.source.stream_identity import read_query_id, to_writer_name
from lakelog.spark.task_errors import errors_to_driver
from lakelog.storage.parquet.writer import plan_file_schema
from lakelog.storage.write.row_normalizer import KindSource
from lakelog.system_tables.registry import refuse_write
from lakelog.writes.commit_options import NO_GUARDS, Guards, read_guards
from lakelog.writes.log_rows import plan_log_rows


@dataclass(frozen=True)
class WriteTarget:
    """A table that is written to.

    Args:
        connection: The connection to its metastore.
        info: The table.
        overwrite: What is replaced; None: rows are added.
        source: The source of the rows' kinds.
        uncommitted: How tasks send rows to the external log before the commit; None: they do not.
        guards: Snapshots since which nothing may have changed.
        fill_missing: Whether nullable columns that the rows leave out become NULL.
    """

    connection: SparkConnection
    info: TableInfo
    overwrite: Overwrite | None
    source: KindSource
    uncommitted: UncommittedTask | None = None
    guards: Guards = NO_GUARDS
    fill_missing: bool = False

    @property
    def metastore(self) -> Metastore:
        """The metastore's client in this process."""
        return open_metastore(self.connection)

    @staticmethod
    def of(
        connection: SparkConnection, options: SourceOptions, schema: StructType, overwrite: bool, *, is_stream: bool
    ) -> WriteTarget:
        """Looks the table up and checks that the rows' columns fit it."""
        metastore = open_metastore(connection)
        refuse_write(options.table, "written")
        info = metastore.get_table(parse_table_name(options.table))
        given = options.write
        partition = _read_partition(options.partition, info)
        # A stream with the output mode complete overwrites: each batch is the whole result, so partitions without rows
        # must be emptied too.
        by_rows = bool(info.schema.partition_by) and not is_stream and given.get(DYNAMIC_PARTITION_OVERWRITE)
        if overwrite and partition is None and by_rows:
            partition = "dynamic"
        replaced = resolve_overwrite("overwrite" if overwrite else "append", partition, info, given)
        source = kind_source("append", info, schema.names)
        merges = given.get(MERGE_SCHEMA)
        if merges:
            rows = StructType([field for field in schema if field.name != ROW_KIND_COLUMN])
            info = merge_columns(metastore, info, to_arrow_schema(rows, timezone="UTC"))
        fills = merges or given.get(FILL_MISSING)
        _check_columns(schema, info, source, replaced, fills)
        uncommitted = None if replaced is not None else plan_uncommitted(metastore, info)
        # It has answered just now; the commit comes from another process, perhaps hours later.
        guards = read_guards(given)
        if is_stream and guards != NO_GUARDS:
            raise InvalidArgument(
                f"'{IF_SNAPSHOT.key}' and '{IF_UNCHANGED.key}' are for a write of rows that were read before, and a "
                "stream's own first batch would trip them. Leave them out, or write batches by foreachBatch and "
                "lakelog.spark.write.",
                metadata={"option": (IF_UNCHANGED if guards.if_snapshot is None else IF_SNAPSHOT).key},
            )
        return WriteTarget(replace(connection, is_known=True), info, replaced, source, uncommitted, guards, fills)

    def to_task(self, attempt: Attempt) -> WriteTask:
        """What a task needs; changes by `lookup` are made after all tasks have written. Pure."""
        options = TableOptions(self.info.options)
        return WriteTask(
            str(self.info.name),
            self.info.location,
            self.info.schema,
            options,
            attempt.attempt_id,
            self.source,
            False,
            None if self.overwrite is None else self.overwrite.static,
            copies=plan_copies(self.info, options, self.overwrite),
            log_rows=plan_log_rows(
                self.info, plan_log_content(self.info, options, replaces=self.overwrite is not None)
            ),
            uncommitted=self.uncommitted,
            fill_missing=self.fill_missing,
        )


def _check_columns(
    schema: StructType, info: TableInfo, source: KindSource, overwrite: Overwrite | None, fill_missing: bool
) -> None:
    expected = info.schema.arrow if source is KindSource.INSERTS else plan_file_schema(info.schema, with_row_kind=False)
    filled = (
        set() if overwrite is None or overwrite.static is None else set(overwrite.static.values) - set(schema.names)
    )
    given = StructType([field for field in schema if field.name != ROW_KIND_COLUMN])
    check_schema(
        to_arrow_schema(given, timezone="UTC"),
        pa.schema([field for field in expected if field.name not in filled]),
        fill_missing=fill_missing,
        fill_option=FILL_MISSING.key,
        merge_option=f"option '{MERGE_SCHEMA.key}'",
    )


def _read_partition(text: str | None, info: TableInfo) -> Any:
    """The option `partition`: `dynamic`, or a JSON object, in which values of types that JSON lacks are texts."""
    if text is None or text == "dynamic":
        return text
    try:
        values = json.loads(text)
    except ValueError as error:
        raise InvalidArgument(
            f"Option 'partition' is neither 'dynamic' nor a JSON object: {error}.", metadata={"option": "partition"}
        ) from error
    if not isinstance(values, dict):
        raise InvalidArgument("Option 'partition' is no JSON object.", metadata={"option": "partition"})
    types = {field.name: field.type for field in info.schema.arrow}
    for name, value in values.items():
        if isinstance(value, str) and name in info.schema.partition_by and not pa.types.is_string(types[name]):
            try:
                values[name] = pa.scalar(value).cast(types[name]).as_py()
            except pa.ArrowException as error:
                raise InvalidArgument(
                    f"Option 'partition' has {name}={value[:80]!r}, which is no {types[name]}: {error}.",
                    metadata={"option": "partition", "column": name},
                ) from error
    return values


@dataclass
class Written(WriterCommitMessage):
    """A task's result: its files, and their attempt."""

    attempt: Attempt
    files: WrittenFiles


class LakelogWriter(DataSourceArrowWriter):
    """Writes one batch; made in planning, used in tasks, and by the commit in another process."""

    def __init__(self, target: WriteTarget, attempt: Attempt) -> None:
        self._target = target
        self._attempt = attempt

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of a task. Runs on executors."""
        with errors_to_driver():
            return Written(self._attempt, write_rows(self._target.to_task(self._attempt), iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits what the tasks wrote."""
        written = [cast(Written, message).files for message in messages if message is not None]
        parameters = CommitParameters(guards=self._target.guards)
        commit_attempt(self._target.metastore, self._attempt, written, parameters, self._target.overwrite)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Aborts the batch."""
        abandon_attempt(self._target.metastore, self._attempt)


@dataclass(frozen=True)
class StreamIdentity:
    """The identity of a stream's batches: the writer's name, and the id in the checkpoint if it is readable."""

    writer: str
    query_id: str | None

    @staticmethod
    def of(options: SourceOptions) -> StreamIdentity:
        """Reads it from `commit-user` or the checkpoint; raises InvalidArgument if neither is there."""
        commit_user = options.write.get(COMMIT_USER)
        if options.checkpoint is None:
            if commit_user is None:
                raise InvalidArgument(
                    "A stream into a table needs the option 'checkpointLocation' at its writer, from which its name is "
                    "derived, or a name of its own by the option 'commit-user' (the setting "
                    "spark.sql.streaming.checkpointLocation does not reach a data source).",
                    metadata={"option": "checkpointLocation"},
                )
            return StreamIdentity(commit_user, None)
        query_id = read_query_id(options.checkpoint)
        return StreamIdentity(commit_user or to_writer_name(query_id), query_id)

    def to_parameters(self, batch_id: int) -> CommitParameters:
        """The identity of a batch. Pure."""
        properties = {} if self.query_id is None else {QUERY_ID_PROPERTY: self.query_id}
        return CommitParameters(self.writer, batch_id, batch_id - 1, properties=properties)


class LakelogStreamWriter(DataSourceStreamArrowWriter):
    """Writes batches of a stream, each once. Made again in planning and for commits; tasks get a pickled one."""

    def __init__(self, target: WriteTarget, identity: StreamIdentity) -> None:
        self._target = target
        self._identity = identity
        self._attempt: Attempt | None = None

    def __getstate__(self) -> dict[str, Any]:
        # It is pickled for the tasks: so this is planning, and their files need an attempt.
        if self._attempt is None:
            self._attempt = self._open_attempt()
        return dict(self.__dict__)

    def _open_attempt(self) -> Attempt:
        """An attempt for the next batch: its number is not known here, but batches are numbered without gaps.

        If Spark repeats the last batch instead, the commit of the next one aborts the attempt at the latest.
        """
        metastore, info, writer = self._target.metastore, self._target.info, self._identity.writer
        last = metastore.get_writer_progress(writer, info.table_uuid).last_identifier
        return open_attempt(metastore, info, writer, 0 if last is None else last + 1)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of a task. Runs on executors."""
        assert self._attempt is not None, "a writer that reached a task was pickled"
        with errors_to_driver():
            return Written(self._attempt, write_rows(self._target.to_task(self._attempt), iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commits a batch, or finds that it was committed before and deletes the files of this run."""
        written = [cast(Written, message) for message in messages if message is not None]
        metastore, info = self._target.metastore, self._target.info
        parameters = self._identity.to_parameters(batchId)
        attempt = written[0].attempt if written else open_attempt(metastore, info, self._identity.writer)
        check_progress(metastore, info, parameters)
        if find_applied(metastore, info, parameters) is not None:
            abandon_attempt(metastore, attempt)
            return
        commit_attempt(metastore, attempt, [each.files for each in written], parameters, self._target.overwrite)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Aborts a batch; if no task reported its attempt, the orphan collector finds it."""
        for message in messages:
            if message is not None:
                abandon_attempt(self._target.metastore, cast(Written, message).attempt)
                return
