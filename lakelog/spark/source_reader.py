"""Reading for `format("lakelog")`: a state is settled in planning, tasks read a bucket or some files each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakelog.arguments import parse_table_name
from lakelog.errors import InvalidArgument
from lakelog.format.filter import Filter
from lakelog.format.plan import Plan
from lakelog.format.schema import TableSchema
from lakelog.format.table import TableInfo
from lakelog.options.values import ScanOptions, TableOptions
from lakelog.reading import to_scan_columns
from lakelog.spark.connection import SparkConnection, open_metastore, open_table_store
from lakelog.spark.planning import check_spark_columns, plan_read, settle_spark_state
from lakelog.spark.source_options import SourceOptions
from lakelog.spark.task_errors import told_to_driver
from lakelog.spark.types import same_values, to_spark_schema
from lakelog.storage.file_scan import FileScan
from lakelog.storage.live_file import LiveFile, to_live_files
from lakelog.storage.superseded import MergePolicy, to_merge_policy

_PARTITION_BYTES: Final = 128 << 20
"""Of files without buckets that one task reads, as in Spark's own sources."""


def plan_source(
    connection: SparkConnection, options: SourceOptions
) -> tuple[TableInfo, Plan, tuple[str, ...], Filter | None]:
    """Asks the metastore: the table, its files, the columns to return, and the filter if there is one."""
    metastore = open_metastore(connection)
    info = metastore.get_table(parse_table_name(options.table))
    state = settle_spark_state(None, None, ScanOptions(options.others))
    plan, parsed = plan_read(metastore, info, state, options.filter, time_zone="UTC", strict=True)
    return info, plan, check_spark_columns(options.columns, plan.schema, options.table), parsed


def pick_columns(schema: TableSchema, names: Sequence[str]) -> pa.Schema:
    """Some columns of a table, without ids. Pure."""
    return pa.schema([schema.arrow.field(name).remove_metadata() for name in names])


def check_given_schema(given: StructType, schema: TableSchema, names: Sequence[str], table_name: str) -> None:
    """Raises InvalidArgument where a schema that the user gave is not that of the columns that are read. Pure."""
    check_same_schema(given, to_spark_schema(pick_columns(schema, names), nullable=True), table_name)


def check_same_schema(given: StructType, wanted: StructType, table_name: str) -> None:
    """As `check_given_schema`, for columns as Spark knows them. Pure."""
    if not same_values(given, wanted):
        raise InvalidArgument(
            f"The schema given for the read ({given.simpleString():.300}) is not that of {table_name} "
            f"({wanted.simpleString():.300}). Leave schema() out, since the table has its own; name fewer columns by "
            "the option 'columns', and cast in the query.",
            reason="SCHEMA_MISMATCH",
            metadata={"table": table_name},
        )


@dataclass
class FilesToRead(InputPartition):
    """What one task reads: all files of a bucket, or some files of a table without buckets."""

    files: tuple[LiveFile, ...]


class LakelogReader(DataSourceReader):
    """Reads one state of a table; the snapshot is settled in planning. Filters as lakelog means them, in UTC."""

    def __init__(self, connection: SparkConnection, options: SourceOptions, schema: StructType) -> None:
        _, plan, names, parsed = plan_source(connection, options)
        check_given_schema(schema, plan.schema, names, options.table)
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
        columns = to_scan_columns(tuple(self._names), self._schema, self._filter)
        store = open_table_store(self._location)
        with told_to_driver():
            scan = FileScan(store, files, self._schema, columns, self._policy, threads=1)
            for batch in scan.read_batches():
                yield pa.RecordBatch.from_arrays(
                    [column.cast(field.type) for column, field in zip(batch.columns, self._arrow, strict=True)],
                    schema=self._arrow,
                )
