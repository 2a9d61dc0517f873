"""Reads for `format("lakelog")`: planning fixes a state, and each task reads a bucket or some files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import groupby
from typing import Any, Final, cast

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakelog.errors import InvalidArgument
from lakelog.format.filter.condition import Filter
from lakelog.format.tables.plan import Plan
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.schema import TableSchema
from lakelog.options.values import ScanOptions, TableOptions
from lakelog.reads.reading import to_scan_columns
from lakelog.spark.connection import SparkConnection, open_metastore, open_table_store
from lakelog.spark.planning import check_spark_columns, find_table_and_levels, plan_read, resolve_spark_state
from lakelog.spark.source.options import SourceOptions
from lakelog.spark.task_errors import errors_to_driver
from lakelog.spark.types import forbids_null, same_values, to_spark_schema
from lakelog.storage.merging.merge_policy import MergePolicy, to_merge_policy
from lakelog.storage.parquet.live_file import LiveFile, to_live_files
from lakelog.storage.scan.file_scan import FileScan

_PARTITION_BYTES: Final = 128 << 20
"""Size of the files without buckets that one task reads, as in Spark's own sources."""

_MAX_REPORTED: Final = 50
"""Lines of a difference; more of them do not help."""


def plan_source(
    connection: SparkConnection, options: SourceOptions
) -> tuple[TableInfo, Plan, tuple[str, ...], Filter | None]:
    """Requests a plan: the table, its files, the columns to return, and the filter if there is one."""
    metastore = open_metastore(connection)
    info, levels = find_table_and_levels(metastore, options.table)
    state = resolve_spark_state(None, None, ScanOptions(options.others))
    plan, parsed = plan_read(metastore, info, state, options.filter, time_zone="UTC", strict=True, levels=levels)
    return info, plan, check_spark_columns(options.columns, plan.schema, options.table), parsed


def pick_columns(schema: TableSchema, names: Sequence[str]) -> pa.Schema:
    """Some columns of a table, without ids. Pure."""
    return pa.schema([schema.arrow.field(name).remove_metadata() for name in names])


def pick_given_columns(
    given: StructType, known: StructType, never_null: Collection[str], table_name: str
) -> tuple[str, ...]:
    """The columns of a read with a user's schema: some of those that the options name, in the schema's order.

    Pure. Columns are matched by name and must have the table's types, since Spark trusts the declared types.

    Args:
        given: The argument of `schema(...)`; without it `known`.
        known: The columns that the options name, as Spark knows them.
        never_null: Those of them that can be declared as NOT NULL.
        table_name: For messages.

    Raises:
        InvalidArgument: The schema does not fit; shows the difference, a line for each column.
    """
    wanted = {field.name: field.dataType for field in known}
    names = [*wanted]
    by_case = {name.casefold(): name for name in reversed(names)}
    lines: list[str] = []
    seen: set[str] = set()
    for field in given:
        name, got = field.name, f"{field.dataType.simpleString():.120}"
        if name in seen:
            lines.append(f"{name}: given twice: name each column once")
        elif name not in wanted:
            near = [by_case[name.casefold()]] if name.casefold() in by_case else []
            near = near or (get_close_matches(name[:200], names, n=1) if len(lines) < _MAX_REPORTED else [])
            meant = f"; or is '{near[0]}' meant? Upper and lower case count" if near else ""
            lines.append(f"{name}: expected no such column, got {got}: leave it out{meant}")
        elif not same_values(field.dataType, wanted[name]):
            expected = f"{wanted[name].simpleString():.120}"
            lines.append(f"{name}: expected {expected}, got {got}: give it as it is, and cast in the query")
        elif forbids_null(field.dataType, wanted[name]) or (name not in never_null and not field.nullable):
            lines.append(f"{name}: expected nullable, got NOT NULL: Spark would not look for NULL; leave NOT NULL out")
        seen.add(name)
    if lines:
        more = [f"  and {len(lines) - _MAX_REPORTED} more columns"] if len(lines) > _MAX_REPORTED else []
        difference = "\n".join([*(f"  {line}" for line in lines[:_MAX_REPORTED]), *more])
        columns = "one column" if len(lines) == 1 else f"{len(lines)} columns"
        raise InvalidArgument(
            f"The schema given for the read of {table_name} does not fit in {columns}; schema() may be left out, since "
            f"the table has its own:\n{difference}",
            reason="SCHEMA_MISMATCH",
            metadata={"table": table_name},
        )
    return tuple(field.name for field in given)


@dataclass
class FilesToRead(InputPartition):
    """What one task reads: all files of a bucket, or some files of a table without buckets."""

    files: tuple[LiveFile, ...]


class LakelogReader(DataSourceReader):
    """Reads one state of a table; planning fixes the snapshot. Filters have lakelog's meaning, in UTC."""

    def __init__(self, connection: SparkConnection, options: SourceOptions, schema: StructType) -> None:
        _, plan, names, parsed = plan_source(connection, options)
        columns = pick_columns(plan.schema, names)
        never_null = {each.name for each in columns if not each.nullable}
        names = pick_given_columns(schema, to_spark_schema(columns, nullable=True), never_null, options.table)
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
        """A partition for each bucket, or for some files of a table without buckets."""
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
        # Partitions name their files; otherwise the whole list would travel with each task.
        return self.__dict__ | {"_files": []}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads a partition's rows. Runs on executors."""
        files = cast(FilesToRead, partition).files
        columns = to_scan_columns(tuple(self._names), self._schema, self._filter)
        store = open_table_store(self._location)
        with errors_to_driver():
            scan = FileScan(store, files, self._schema, columns, self._policy, threads=1)
            for batch in scan.read_batches():
                yield pa.RecordBatch.from_arrays(
                    [batch.column(field.name).cast(field.type) for field in self._arrow],
                    schema=self._arrow,
                )
