"""`format("lakelog")`: tables as a Python data source of Spark, for reading, writing and as a streaming sink.

Spark makes objects of these classes in short-lived processes on the driver's machine: one to find the schema, one to
plan, one to commit; tasks get what planning pickled. Such a source can ask for no columns or conditions of a query, so
they are options here; rows are written as they lie, each task a run for each bucket it meets.
`lakelog.spark.read_table` and `write` are the fast way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, Final, cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakelog.arguments import parse_table_name
from lakelog.client.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.cast import check_schema
from lakelog.format.filter import Filter
from lakelog.format.plan import Plan
from lakelog.format.rowkind import ROW_KIND_COLUMN
from lakelog.format.schema import TableSchema
from lakelog.format.table import TableInfo
from lakelog.options.call_options import COMMIT_USER, DYNAMIC_PARTITION_OVERWRITE
from lakelog.options.values import ScanOptions, TableOptions, WriteOptions
from lakelog.spark.commit import Attempt, CommitTerms, Overwrite, abandon_attempt, commit_attempt, open_attempt
from lakelog.spark.connection import SparkConnection, open_metastore, open_table_store
from lakelog.spark.planning import check_columns, plan_read, settle_state
from lakelog.spark.stream_identity import read_query_id, to_writer_name
from lakelog.spark.task_errors import told_to_driver
from lakelog.spark.tasks import WriteTask, WrittenFiles, write_rows
from lakelog.spark.types import to_spark_schema
from lakelog.spark.write_terms import QUERY_ID_PROPERTY, check_progress, find_applied, kind_source, settle_overwrite
from lakelog.storage.file_scan import FileScan, ScanColumns
from lakelog.storage.intake import KindSource
from lakelog.storage.live_file import LiveFile, to_live_files
from lakelog.storage.parquet_writer import plan_file_schema
from lakelog.storage.superseded import MergePolicy, to_merge_policy

_PARTITION_BYTES: Final = 128 << 20
"""Of files without buckets that one task reads, as in Spark's own sources."""

_OWN_OPTIONS: Final = frozenset(
    {"table", "columns", "filter", "partition", "mode", "checkpointlocation", "path", "queryname"}
)


def register_data_source(spark: SparkSession, connection: SparkConnection) -> None:
    """Makes `format("lakelog")` known to a session, over a connection."""

    # SUBTLE: a class made here travels to other processes whole, its connection with it.
    class Installed(LakelogSource):
        pass

    Installed.connection = connection
    spark.dataSource.register(Installed)


class LakelogSource(DataSource):
    """A table, as Spark's data source API sees it.

    Options: `table` (`database.table`), for reads `columns` (names with commas, or a JSON list), `filter` (an SQL
    condition) and every scan option; for writes `partition` (a JSON object, or `dynamic`) and every write option.
    """

    connection: ClassVar[SparkConnection]

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return "lakelog"

    def schema(self) -> StructType:
        """The columns of a read."""
        options = _SourceOptions.of(self.options)
        _, plan, names, _ = _plan(self.connection, options)
        return to_spark_schema(_pick(plan.schema, names))

    def reader(self, schema: StructType) -> LakelogReader:
        """Plans a read."""
        return LakelogReader(self.connection, _SourceOptions.of(self.options), schema)

    def streamReader(self, schema: StructType) -> Any:  # noqa: N802
        """Refuses: there are no streaming reads in this version."""
        raise InvalidArgument(
            "Spark cannot read a lakelog table as a stream in this version. Read snapshots with read_table, or use the "
            "SDK's table.changes(...)."
        )

    def writer(self, schema: StructType, overwrite: bool) -> LakelogWriter:
        """Begins a batch write."""
        options = _SourceOptions.of(self.options)
        target = _Target.of(self.connection, options, schema, overwrite)
        if options.write.get(COMMIT_USER) is not None:
            raise InvalidArgument(
                "'commit-user' makes a write happen once only together with a number, which a data source has no place "
                "for. Use lakelog.spark.write(df, table, writer=, identifier=), or leave it out.",
                metadata={"option": COMMIT_USER.key},
            )
        return LakelogWriter(target, open_attempt(target.metastore, target.info, None))

    def streamWriter(self, schema: StructType, overwrite: bool) -> LakelogStreamWriter:  # noqa: N802
        """Begins, or is about to end, the write of one batch of a stream."""
        options = _SourceOptions.of(self.options)
        return LakelogStreamWriter(_Target.of(self.connection, options, schema, overwrite), _StreamIdentity.of(options))


@dataclass(frozen=True)
class _SourceOptions:
    """The options of a read or write, by what they are for. Keys reach us in lower case, as lakelog's own are."""

    table: str
    columns: tuple[str, ...] | None
    filter: str | None
    partition: str | None
    checkpoint: str | None
    others: Mapping[str, str]

    @staticmethod
    def of(given: Mapping[str, str]) -> _SourceOptions:
        options = {key.lower(): value for key, value in given.items()}
        table = options.get("table")
        if table is None:
            hint = f" (in load() and save() stood '{options['path'][:200]}')" if options.get("path") else ""
            raise InvalidArgument(
                f"The option 'table' is missing{hint}: .option('table', 'database.table').",
                metadata={"option": "table"},
            )
        return _SourceOptions(
            table,
            _read_columns(options.get("columns")),
            options.get("filter"),
            options.get("partition"),
            options.get("checkpointlocation"),
            {key: value for key, value in options.items() if key not in _OWN_OPTIONS},
        )

    @property
    def write(self) -> WriteOptions:
        return WriteOptions(self.others)


def _read_columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    if not text.lstrip().startswith("["):
        return tuple(part.strip() for part in text.split(","))
    try:
        return tuple(json.loads(text))
    except ValueError as error:
        raise InvalidArgument(
            f'Option \'columns\' is no JSON list: {error}. Write names with commas, or a list such as ["id", "a,b"].',
            metadata={"option": "columns"},
        ) from error


def _plan(
    connection: SparkConnection, options: _SourceOptions
) -> tuple[TableInfo, Plan, tuple[str, ...], Filter | None]:
    metastore = open_metastore(connection)
    info = metastore.get_table(parse_table_name(options.table))
    state = settle_state(None, None, ScanOptions(options.others))
    plan, parsed = plan_read(metastore, info, state, options.filter, time_zone="UTC", strict=True)
    return info, plan, check_columns(options.columns, plan.schema, options.table), parsed


def _pick(schema: TableSchema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.arrow.field(name).remove_metadata() for name in names])


@dataclass
class FilesToRead(InputPartition):
    """What one task reads: all files of a bucket, or some files of a table without buckets."""

    files: tuple[LiveFile, ...]


class LakelogReader(DataSourceReader):
    """Reads one state of a table; the snapshot is settled in planning. Filters as lakelog means them, in UTC."""

    def __init__(self, connection: SparkConnection, options: _SourceOptions, schema: StructType) -> None:
        _, plan, names, parsed = _plan(connection, options)
        self._arrow = to_arrow_schema(schema, timezone="UTC")
        self._location = plan.table.location
        self._schema = plan.schema
        self._names = names
        self._filter = parsed
        self._files = to_live_files(plan.files)
        has_key = bool(plan.schema.primary_key)
        table_options = TableOptions(plan.table.options)
        self._policy: MergePolicy | None = to_merge_policy(plan.schema, table_options) if has_key else None
        self._has_buckets = table_options.bucket_count(has_key) > 0

    def partitions(self) -> list[InputPartition]:
        """A partition of rows for each bucket, or for some files of a table without buckets."""
        if self._has_buckets:
            buckets = groupby(self._files, key=lambda file: (file.partition, file.bucket))
            return [FilesToRead(tuple(files)) for _, files in buckets] or [FilesToRead(())]
        groups: list[list[LiveFile]] = [[]]
        held = 0
        for file in self._files:
            if groups[-1] and held + file.size_bytes > _PARTITION_BYTES:
                groups.append([])
                held = 0
            groups[-1].append(file)
            held += file.size_bytes
        return [FilesToRead(tuple(group)) for group in groups]

    def __getstate__(self) -> dict[str, Any]:
        # Partitions name their files; the whole list would travel with each task.
        return self.__dict__ | {"_files": []}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads a partition's rows. Runs on executors."""
        files = cast(FilesToRead, partition).files
        used = set(self._names) | set(self._filter.columns if self._filter is not None else ())
        schema = self._schema
        fields = tuple(field for field in schema.arrow if field.name in used)
        columns = ScanColumns(fields, self._names)
        if self._filter is not None:
            predicate = self._filter.to_predicate(schema.field_ids)
            keys = {name: schema.field_ids[name] for name in schema.trimmed_key}
            columns = ScanColumns(
                fields,
                self._names,
                self._filter.to_arrow(),
                self._filter.columns,
                predicate,
                self._filter.to_predicate(keys) if keys else None,
            )
        store = open_table_store(self._location)
        with told_to_driver():
            scan = FileScan(store, files, self._schema, columns, self._policy, threads=1)
            for batch in scan.read_batches():
                yield pa.RecordBatch.from_arrays(
                    [column.cast(field.type) for column, field in zip(batch.columns, self._arrow, strict=True)],
                    schema=self._arrow,
                )


@dataclass(frozen=True)
class _Target:
    """A table that is written to."""

    connection: SparkConnection
    info: TableInfo
    overwrite: Overwrite | None
    source: KindSource

    @property
    def metastore(self) -> Metastore:
        return open_metastore(self.connection)

    @staticmethod
    def of(connection: SparkConnection, options: _SourceOptions, schema: StructType, overwrite: bool) -> _Target:
        info = open_metastore(connection).get_table(parse_table_name(options.table))
        given = options.write
        partition = _read_partition(options.partition, info)
        if overwrite and partition is None and info.schema.partition_by and given.get(DYNAMIC_PARTITION_OVERWRITE):
            partition = "dynamic"
        replaced = settle_overwrite("overwrite" if overwrite else "append", partition, info, given)
        source = kind_source("append", info, schema.names)
        _check_columns(schema, info, source, replaced)
        return _Target(connection, info, replaced, source)

    def to_task(self, attempt: Attempt) -> WriteTask:
        return WriteTask(
            str(self.info.name),
            self.info.location,
            self.info.schema,
            TableOptions(self.info.options),
            attempt.attempt_id,
            self.source,
            False,
            None if self.overwrite is None else self.overwrite.static,
        )


def _check_columns(schema: StructType, info: TableInfo, source: KindSource, overwrite: Overwrite | None) -> None:
    expected = info.schema.arrow if source is KindSource.INSERTS else plan_file_schema(info.schema, with_row_kind=False)
    filled = (
        set() if overwrite is None or overwrite.static is None else set(overwrite.static.values) - set(schema.names)
    )
    given = StructType([field for field in schema if field.name != ROW_KIND_COLUMN])
    check_schema(
        to_arrow_schema(given, timezone="UTC"), pa.schema([field for field in expected if field.name not in filled])
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
    """What a task tells: its files, and whose they are."""

    attempt: Attempt
    files: WrittenFiles


class LakelogWriter(DataSourceArrowWriter):
    """Writes one batch; made in planning, used in tasks, and to commit in a process of its own."""

    def __init__(self, target: _Target, attempt: Attempt) -> None:
        self._target = target
        self._attempt = attempt

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of a task. Runs on executors."""
        with told_to_driver():
            return Written(self._attempt, write_rows(self._target.to_task(self._attempt), iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits what the tasks wrote."""
        written = [cast(Written, message).files for message in messages if message is not None]
        commit_attempt(self._target.metastore, self._attempt, written, CommitTerms(), self._target.overwrite)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Gives all up."""
        abandon_attempt(self._target.metastore, self._attempt)


@dataclass(frozen=True)
class _StreamIdentity:
    """By what the batches of a stream are known: the writer's name, and the id in the checkpoint, if it can be seen."""

    writer: str
    query_id: str | None

    @staticmethod
    def of(options: _SourceOptions) -> _StreamIdentity:
        commit_user = options.write.get(COMMIT_USER)
        if options.checkpoint is None:
            if commit_user is None:
                raise InvalidArgument(
                    "A stream into a table needs the option 'checkpointLocation' at its writer, from which its name is "
                    "derived, or a name of its own by the option 'commit-user' (the setting "
                    "spark.sql.streaming.checkpointLocation does not reach a data source).",
                    metadata={"option": "checkpointLocation"},
                )
            return _StreamIdentity(commit_user, None)
        query_id = read_query_id(options.checkpoint)
        return _StreamIdentity(commit_user or to_writer_name(query_id), query_id)

    def to_terms(self, batch_id: int) -> CommitTerms:
        properties = {} if self.query_id is None else {QUERY_ID_PROPERTY: self.query_id}
        return CommitTerms(self.writer, batch_id, batch_id - 1, properties=properties)


class LakelogStreamWriter(DataSourceStreamArrowWriter):
    """Writes batches of a stream, each once. Made anew in planning and to commit; tasks get what planning pickled."""

    def __init__(self, target: _Target, identity: _StreamIdentity) -> None:
        self._target = target
        self._identity = identity
        self._attempt: Attempt | None = None

    def __getstate__(self) -> dict[str, Any]:
        # The writer leaves for the tasks: now it is sure that this is planning, and their files need an attempt.
        if self._attempt is None:
            self._attempt = open_attempt(self._target.metastore, self._target.info, self._identity.writer)
        return dict(self.__dict__)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of a task. Runs on executors."""
        assert self._attempt is not None, "a writer that reached a task was pickled"
        with told_to_driver():
            return Written(self._attempt, write_rows(self._target.to_task(self._attempt), iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commits a batch, or finds that it was committed before and deletes the files of this run of it."""
        written = [cast(Written, message) for message in messages if message is not None]
        metastore, info = self._target.metastore, self._target.info
        terms = self._identity.to_terms(batchId)
        attempt = written[0].attempt if written else open_attempt(metastore, info, self._identity.writer)
        check_progress(metastore, info, terms)
        if find_applied(metastore, info, terms) is not None:
            abandon_attempt(metastore, attempt)
            return
        commit_attempt(metastore, attempt, [each.files for each in written], terms, self._target.overwrite)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Gives a batch up; where no task told of its attempt, the collector finds it."""
        for message in messages:
            if message is not None:
                abandon_attempt(self._target.metastore, cast(Written, message).attempt)
                return
