"""The options of a stream of a table's changes, sorted and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from lakelog.errors import InvalidArgument
from lakelog.format.filter.condition import parse_filter
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.log.settings import choose_log, read_log_settings
from lakelog.options.declared.log import STREAM_READ_MODE
from lakelog.options.declared.spark_streams import (
    MAX_BYTES_PER_TRIGGER,
    MAX_FILES_PER_TRIGGER,
    MAX_ROWS_PER_TRIGGER,
    METADATA_COLUMNS,
)
from lakelog.options.declared.streams import CONSUMER_ID, SCAN_REMOVE_NORMALIZE, STREAM_READ_OVERWRITE
from lakelog.options.declared.tables import STREAMING_READ_OVERWRITE
from lakelog.options.option import Option, Scope
from lakelog.options.registry import list_options, unknown_option
from lakelog.options.values import StreamOptions, TableOptions
from lakelog.reads.change_plan import check_raw
from lakelog.reads.log.start import comes_from_log
from lakelog.reads.reading import without_kind
from lakelog.spark.planning import check_spark_columns
from lakelog.spark.source.options import SourceOptions
from lakelog.spark.stream.limits import TriggerLimits
from lakelog.spark.types import to_spark_schema
from lakelog.storage.scan.file_scan import SNAPSHOT_ID_COLUMN

_SOURCE_OPTIONS: Final = ("table", "columns", "filter")

COMMIT_TIMESTAMP_COLUMN: Final = "_commit_timestamp"

METADATA_TYPES: Final = {
    ROW_KIND_COLUMN: pa.string(),
    SNAPSHOT_ID_COLUMN: pa.int64(),
    COMMIT_TIMESTAMP_COLUMN: pa.timestamp("us", tz="UTC"),
}
"""The columns that no table has itself."""


@dataclass(frozen=True)
class StreamReadOptions:
    """What is read.

    Args:
        table: `database.table`.
        columns: Names of columns; None: all.
        filter: An SQL condition; None: none.
        metadata: Further columns, in order.
        limits: The limits of a batch.
        options: Where it begins and what it shows.
    """

    table: str
    columns: tuple[str, ...] | None
    filter: str | None
    metadata: tuple[str, ...]
    limits: TriggerLimits
    options: StreamOptions

    @staticmethod
    def of(source: SourceOptions) -> StreamReadOptions:
        """Sorts the options of a query; makes no call.

        Raises:
            InvalidArgument: An unknown option, a wrong value, two that contradict each other.
        """
        left = dict(source.others)
        metadata = take_metadata(left)
        limits = TriggerLimits(
            _take(left, MAX_FILES_PER_TRIGGER), _take(left, MAX_BYTES_PER_TRIGGER), _take(left, MAX_ROWS_PER_TRIGGER)
        )
        if CONSUMER_ID.key in left:
            raise InvalidArgument(
                f"Option '{CONSUMER_ID.key}' cannot be given to a stream of Spark, whose checkpoint keeps its "
                "position: two places could disagree. Leave it out.",
                reason="MISPLACED_OPTION",
                metadata={"option": CONSUMER_ID.key},
            )
        known = [option.key for option in list_options(Scope.STREAM) if option is not CONSUMER_ID]
        for key in sorted(left):
            if key not in known:
                raise unknown_option(key, Scope.SPARK_STREAM, (*known, *_SOURCE_OPTIONS))
        return StreamReadOptions(source.table, source.columns, source.filter, metadata, limits, StreamOptions(left))

    def names(self, table: TableInfo) -> tuple[str, ...]:
        """The columns of the stream; raises InvalidArgument for one that the table lacks. Pure."""
        return name_columns(table, self.columns, self.metadata)

    def shows_overwrites(self, table: TableInfo) -> bool:
        """Whether what overwrites changed is shown. Pure."""
        wanted = self.options.get(STREAM_READ_OVERWRITE)
        return TableOptions(table.options).get(STREAMING_READ_OVERWRITE) if wanted is None else wanted

    def reads_log(self, table: TableInfo) -> bool:
        """Whether changes come from the table's log, if it has them. Pure.

        Raises:
            InvalidArgument: The log is requested, and the table has none, or one that shows other rows.
        """
        settings = read_log_settings(table.options, has_primary_key=bool(table.schema.primary_key))
        if not choose_log(self.options, settings) or settings is None:
            return False
        is_raw = bool(table.schema.primary_key) and self.options.get(SCAN_REMOVE_NORMALIZE)
        # Rows as they were written are in the files. Uncommitted records name no snapshot.
        return not settings.is_eventual and not is_raw and comes_from_log(table, settings)

    @property
    def requires_log(self) -> bool:
        """Whether the stream itself requested the log."""
        return self.options.get(STREAM_READ_MODE) is not None

    def check(self, table: TableInfo) -> None:
        """Raises InvalidArgument for options that the table, or a condition on its columns, does not allow. Pure."""
        self.reads_log(table)
        if self.options.get(SCAN_REMOVE_NORMALIZE):
            check_raw(table, f"Option '{SCAN_REMOVE_NORMALIZE.key}'")
        if self.filter is not None:
            parse_filter(self.filter, table.schema.arrow)


def take_metadata(left: dict[str, str]) -> tuple[str, ...]:
    """Takes the names of metadata columns out of options; raises InvalidArgument for an unknown one."""
    metadata: tuple[str, ...] = _take(left, METADATA_COLUMNS)
    for name in metadata:
        if name not in METADATA_TYPES:
            raise InvalidArgument(
                f"Option '{METADATA_COLUMNS.key}' names '{name[:100]}', which is none of the metadata columns: "
                f"give some of {', '.join(METADATA_TYPES)}, and the table's own by 'columns'.",
                metadata={"option": METADATA_COLUMNS.key, "column": name},
            )
    return metadata


def name_columns(table: TableInfo, columns: Sequence[str] | None, metadata: Sequence[str]) -> tuple[str, ...]:
    """The columns of changes: the requested ones, metadata, and with a primary key the kind as the last. Pure."""
    names = check_spark_columns(without_kind(columns, table.schema), table.schema, str(table.name))
    if not table.schema.primary_key:
        return (*names, *metadata)
    return (*names, *(name for name in metadata if name != ROW_KIND_COLUMN), ROW_KIND_COLUMN)


def to_change_schema(table: TableInfo, names: Sequence[str]) -> StructType:
    """The columns of changes as Spark types. Pure."""
    arrow = table.schema.arrow
    fields = [
        pa.field(name, METADATA_TYPES[name]) if name in METADATA_TYPES else arrow.field(name).remove_metadata()
        for name in names
    ]
    return to_spark_schema(pa.schema(fields), nullable=True)


def _take(left: dict[str, str], option: Option[Any]) -> Any:
    text = left.pop(option.key.lower(), None)
    return option.default if text is None else option.parse(text)
