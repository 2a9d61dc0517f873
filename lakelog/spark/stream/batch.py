"""The changes between two snapshots as a batch read: `incremental-between` of `format("lakelog")`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakelog.arguments import parse_table_name
from lakelog.client.metastore.metastore import Metastore
from lakelog.format.filter.condition import parse_filter
from lakelog.format.tables.table import TableInfo
from lakelog.options.declared.reads_and_writes import INCREMENTAL_BETWEEN
from lakelog.options.declared.tables import STREAMING_READ_OVERWRITE
from lakelog.options.values import ScanOptions, TableOptions
from lakelog.reads.change_plan import resolve_range_mode
from lakelog.reads.change_range import BEGIN_BETWEEN, naming_what_is_kept
from lakelog.reads.complete_changes import DEFAULT_TIMEOUT_S, plan_when_complete
from lakelog.reads.tag_range import resolve_range
from lakelog.spark.connection import SparkConnection, open_metastore
from lakelog.spark.executor.read_changes import ChangeSplit, read_split
from lakelog.spark.planning import check_spark_columns
from lakelog.spark.source.options import SourceOptions
from lakelog.spark.source.reader import pick_given_columns
from lakelog.spark.stream.read_options import name_columns, take_metadata, to_change_schema
from lakelog.spark.stream.splits import plan_change_splits, plan_difference_splits

RAW_MARK: Final = "lakelog-raw"
"""The option by which `lakelog.spark.changes` requests rows as they were written, including deletes."""


@dataclass(frozen=True)
class RangeReadOptions:
    """What is read.

    Args:
        table: The table as it is now.
        filter: An SQL condition; None: none.
        names: The columns of the result.
        after: Excluded.
        until: Included.
        mode: `delta`, `changelog`, `diff`, or `raw`: as `delta`, with deletes.
    """

    table: TableInfo
    filter: str | None
    names: tuple[str, ...]
    after: int
    until: int
    mode: str

    @staticmethod
    def is_asked_for(source: SourceOptions) -> bool:
        """Whether options ask for a read of changes."""
        return INCREMENTAL_BETWEEN.key in source.others

    @staticmethod
    def of(metastore: Metastore, source: SourceOptions) -> RangeReadOptions | None:
        """Sorts the options of a read; None: it is not a read of changes.

        Raises:
            InvalidArgument: An unknown option, column or condition, or a mode that the table does not allow.
        """
        if not RangeReadOptions.is_asked_for(source):
            return None
        left = dict(source.others)
        is_raw = left.pop(RAW_MARK, None) is not None
        metadata = take_metadata(left)
        options = ScanOptions(left)
        between = options.get(INCREMENTAL_BETWEEN)
        assert between is not None, "it was looked for"
        table = metastore.get_table(parse_table_name(source.table))
        resolved = resolve_range(metastore, table, between)
        mode = "raw" if is_raw else resolve_range_mode(options, table, by_tags=resolved.by_tags)
        if mode == "delta":
            names = (*check_spark_columns(source.columns, table.schema, source.table), *metadata)
        else:
            names = name_columns(table, source.columns, metadata)
        if source.filter is not None:
            parse_filter(source.filter, table.schema.arrow)
        return RangeReadOptions(table, source.filter, names, resolved.after, resolved.until, mode)

    @property
    def schema(self) -> StructType:
        """The columns as Spark types."""
        return to_change_schema(self.table, self.names)

    def plan(
        self, metastore: Metastore, timeout_s: float = DEFAULT_TIMEOUT_S, remedy: str = BEGIN_BETWEEN
    ) -> list[ChangeSplit]:
        """The work of each task; blocks, at most `timeout_s` for changelogs that a compactor still has to make.

        `remedy` is for `naming_what_is_kept`.

        Raises:
            Unavailable: A changelog was still pending then; named.
            NotFound: There is no such snapshot yet.
            SnapshotExpired: A snapshot has expired.
        """
        if self.after == self.until:
            return []
        if self.mode == "diff":
            return plan_difference_splits(metastore, self.table, self.after, self.until, self.filter)
        raw = self.mode != "changelog"
        overwrites = not raw and TableOptions(self.table.options).get(STREAMING_READ_OVERWRITE)
        with naming_what_is_kept(metastore, self.table, self.after, remedy):
            _, splits = plan_when_complete(
                metastore,
                self.table,
                self.until,
                timeout_s,
                lambda: plan_change_splits(
                    metastore, self.table, self.after, self.until, self.filter, raw=raw, overwrites=overwrites
                ),
            )
        return [dataclasses.replace(each, without_deletes=self.mode == "delta") for each in splits]


class RangeReader(DataSourceReader):
    """Reads what some snapshots changed; fixed when it is made."""

    def __init__(self, connection: SparkConnection, read_options: RangeReadOptions, schema: StructType) -> None:
        pick_given_columns(
            schema, read_options.schema, read_options.table.schema.primary_key, str(read_options.table.name)
        )
        self._target = to_arrow_schema(schema, timezone="UTC")
        self._filter = read_options.filter
        self._splits = read_options.plan(open_metastore(connection))

    def partitions(self) -> list[InputPartition]:
        """The tasks."""
        return list(self._splits)

    def __getstate__(self) -> dict[str, Any]:
        # Partitions say what to read; otherwise the whole list would travel with each task.
        return self.__dict__ | {"_splits": []}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the rows of a task. Runs on executors."""
        # Spark makes a partition of its own if there is nothing to read.
        if isinstance(partition, ChangeSplit):
            yield from read_split(partition, self._target, self._filter)
