"""Reads system tables for `format("lakelog")` and `read_table`: metadata where Spark plans, changes in tasks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakelog.config import read_s3_settings
from lakelog.context import Context, make_context
from lakelog.spark.connection import SparkConnection, open_metastore
from lakelog.spark.executor.read_changes import ChangeSplit, read_split
from lakelog.spark.source.options import SourceOptions
from lakelog.spark.source.reader import pick_given_columns
from lakelog.spark.stream.batch import RangeReadOptions
from lakelog.spark.stream.read_options import METADATA_TYPES, to_change_schema
from lakelog.spark.task_errors import errors_to_driver
from lakelog.spark.types import to_spark_schema
from lakelog.storage.objects.stores import LocationStores
from lakelog.system_tables.columns import pick_rows
from lakelog.system_tables.declaration import OfRows
from lakelog.system_tables.registry import MARK, is_system_name, parse_system_name
from lakelog.system_tables.rows.before_and_after import pack_updates
from lakelog.system_tables.rows.changes import find_change_range
from lakelog.system_tables.rows.read_optimized import READ_OPTIMIZED
from lakelog.system_tables.scan import SystemRead, plan_system_read, read_metadata

_CHUNK_ROWS: Final = 65_536
"""Rows of metadata that one task hands over; of a million files there are few tasks."""


def is_planned_as_system_table(name: str) -> bool:
    """Whether a name means a system table that has its own reader; `$ro` is read as any state of its table. Pure."""
    return is_system_name(name) and not name.casefold().endswith(f"{MARK}{READ_OPTIMIZED.name}")


def open_context(connection: SparkConnection) -> Context:
    """What a read of metadata needs, on the driver's machine."""
    metastore = open_metastore(connection)
    return make_context(metastore, LocationStores(read_s3_settings(os.environ), metastore))


def plan_system_source(connection: SparkConnection, options: SourceOptions) -> SystemRead:
    """Resolves the options of a read; raises as `lakelog.system_tables.scan.plan_system_read`."""
    context = open_context(connection)
    name = parse_system_name(options.table)
    info = None if name.table is None else context.metastore.get_table(name.table)
    return plan_system_read(context, name, info, columns=options.columns, filter=options.filter, options=options.others)


def open_system_reader(
    connection: SparkConnection, options: SourceOptions, schema: StructType
) -> MetadataReader | ChangesReader:
    """Plans a read, and reads metadata."""
    read = plan_system_source(connection, options)
    names = pick_given_columns(schema, to_spark_schema(read.returned, nullable=True), (), options.table)
    read = read.with_columns(names)
    target = to_arrow_schema(schema, timezone="UTC")
    if isinstance(read.name.declaration, OfRows):
        return ChangesReader(connection, read, target)
    return MetadataReader(open_context(connection), read, target)


@dataclass
class MetadataRows(InputPartition):
    """Rows that are read already, as an Arrow stream."""

    stream: bytes


class MetadataReader(DataSourceReader):
    """Rows that were read when it was made."""

    def __init__(self, context: Context, read: SystemRead, target: pa.Schema) -> None:
        self._rows: pa.Table | None = read_metadata(context, read)
        self._target = target

    def partitions(self) -> list[InputPartition]:
        """A partition for each chunk of rows."""
        assert self._rows is not None, "Spark asks where it plans"
        starts = range(0, max(self._rows.num_rows, 1), _CHUNK_ROWS)
        return [MetadataRows(_to_stream(self._rows.slice(start, _CHUNK_ROWS))) for start in starts]

    def __getstate__(self) -> dict[str, Any]:
        # Partitions hold the rows; otherwise all of them would travel with each task.
        return self.__dict__ | {"_rows": None}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Returns the rows of a partition. Runs on executors."""
        with pa.ipc.open_stream(cast(MetadataRows, partition).stream) as batches:
            for batch in batches:
                yield _to_target(batch, self._target)


class ChangesReader(DataSourceReader):
    """Changes with their row kinds; fixed when it is made."""

    def __init__(self, connection: SparkConnection, read: SystemRead, target: pa.Schema) -> None:
        metastore = open_metastore(connection)
        info, wanted = read.table, read.wanted
        own = {each.name for each in read.name.declaration.columns}
        condition = wanted.filter
        is_pushed = condition is not None and own.isdisjoint(condition.columns) and not read.is_packed
        self._pushed = condition.sql if condition is not None and is_pushed else None
        self._read = read
        self._target = target
        after, until = find_change_range(metastore, info, wanted)
        names = (*info.schema.arrow.names, *METADATA_TYPES)
        planned = RangeReadOptions(info, self._pushed, names, after, until, "changelog")
        self._splits = planned.plan(metastore)
        self._source = to_arrow_schema(to_change_schema(info, self._choose_columns()), timezone="UTC")

    def _choose_columns(self) -> tuple[str, ...]:
        """The columns to read: all, if updates are found by comparing rows (`lakelog.system_tables.rows.changes`)."""
        info, wanted = self._read.table, self._read.wanted
        compares = any(part.states is not None for split in self._splits for part in split.parts)
        key = info.schema.primary_key if self._read.is_packed else ()
        columns = [name for name in info.schema.arrow.names if compares or name in wanted.columns or name in key]
        if not columns:
            # At least one column must be read for rows to appear.
            columns = info.schema.arrow.names[:1]
        return (*columns, *METADATA_TYPES)

    def partitions(self) -> list[InputPartition]:
        """The tasks."""
        return list(self._splits)

    def __getstate__(self) -> dict[str, Any]:
        # Partitions say what to read; otherwise the whole list would travel with each task.
        return self.__dict__ | {"_splits": []}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the changes of a task. Runs on executors."""
        # Spark makes a partition of its own if there is nothing to read.
        if not isinstance(partition, ChangeSplit):
            return
        batches = read_split(partition, self._source, self._pushed)
        with errors_to_driver():
            if self._read.is_packed:
                batches = pack_updates(batches, self._read.table.schema.primary_key)
            for batch in pick_rows(batches, self._read.wanted.filter, self._read.returned):
                yield _to_target(batch, self._target)


def _to_stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return cast(bytes, sink.getvalue().to_pybytes())


def _to_target(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    columns = [batch.column(field.name).cast(field.type) for field in target]
    return pa.RecordBatch.from_arrays(columns, schema=target)
