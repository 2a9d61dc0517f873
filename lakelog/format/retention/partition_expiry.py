"""Which partitions of a table have expired (semantics 7.3 is about snapshots; this is about rows)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyarrow import types as pt

from lakelog.format.keys.encoding import decode_partition
from lakelog.format.types.schema import TableSchema
from lakelog.options.declared.partitions import (
    PARTITION_EXPIRATION_STRATEGY,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
    UPDATE_TIME,
)
from lakelog.options.timestamp_format import TimestampFormat, fill_in
from lakelog.options.values import TableOptions

_DEFAULTS: Final = (TimestampFormat("yyyy-M-d H:m:s"), TimestampFormat("yyyy-M-d"))
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class PartitionFiles:
    """A partition that has live files.

    Args:
        partition: As `lakelog.format.keys.encoding` encodes it.
        files: The number of live files.
        rows: The rows in these, as stored.
        size_bytes: The size of these.
        updated_at_ms: The last time at which a commit other than a compaction wrote one of them.
    """

    partition: bytes
    files: int
    rows: int
    size_bytes: int
    updated_at_ms: int


@dataclass(frozen=True)
class PartitionPage:
    """Some of the partitions of a table that have live files, by their encoding.

    Args:
        partitions: In rising order.
        snapshot_id: The table's newest snapshot at this time; 0: none.
        now_ms: The database's time.
        is_last: There are none after these.
    """

    partitions: tuple[PartitionFiles, ...]
    snapshot_id: int
    now_ms: int
    is_last: bool


@dataclass(frozen=True)
class PartitionAges:
    """Which of some partitions have expired.

    Args:
        expired: Those that are old enough, each with its time in milliseconds.
        unknown: Those whose time cannot be read; they stay.
    """

    expired: tuple[tuple[PartitionFiles, int], ...]
    unknown: tuple[PartitionFiles, ...]


def find_expired(
    partitions: Sequence[PartitionFiles], schema: TableSchema, options: TableOptions, before_ms: int
) -> PartitionAges:
    """Finds which partitions have expired. Pure.

    Args:
        partitions: Partitions of a table with partition columns.
        schema: The table's schema.
        options: The table's options.
        before_ms: Partitions with a time before this have expired.
    """
    expired, unknown = [], []
    by_update = options.get(PARTITION_EXPIRATION_STRATEGY) == UPDATE_TIME
    for each in partitions:
        time_ms = each.updated_at_ms if by_update else read_time_ms(each.partition, schema, options)
        if time_ms is None:
            unknown.append(each)
        elif time_ms < before_ms:
            expired.append((each, time_ms))
    return PartitionAges(tuple(expired), tuple(unknown))


def read_time_ms(partition: bytes, schema: TableSchema, options: TableOptions) -> int | None:
    """The time in a partition's values, in milliseconds since the epoch and UTC; None: they have none. Pure."""
    columns = schema.partition_by
    types = [schema.arrow.field(name).type for name in columns]
    values = decode_partition(partition, types)
    pattern, formatter = options.get(PARTITION_TIMESTAMP_PATTERN), options.get(PARTITION_TIMESTAMP_FORMATTER)
    if pattern is None and formatter is None:
        direct = _to_ms(values[0])
        if direct is not None:
            return direct
    texts = {name: _to_text(value) for name, value in zip(columns, values, strict=True)}
    text = texts[columns[0]] if pattern is None else fill_in(pattern, texts)
    formats = _DEFAULTS if formatter is None else (TimestampFormat(formatter),)
    return next((time_ms for each in formats if (time_ms := each.read_ms(text)) is not None), None)


def show_partition(partition: bytes, schema: TableSchema) -> dict[str, Any]:
    """A partition's values by column. Pure."""
    types = [schema.arrow.field(name).type for name in schema.partition_by]
    values = decode_partition(partition, types)
    return {name: value.as_py() for name, value in zip(schema.partition_by, values, strict=True)}


def _to_ms(value: pa.Scalar) -> int | None:
    if not value.is_valid:
        return None
    if pt.is_date(value.type):
        return int(value.cast(pa.date32()).cast(pa.int32()).as_py()) * _DAY_MS
    if pt.is_timestamp(value.type):
        unit = {"s": 1000, "ms": 1, "us": -1000, "ns": -1_000_000}[value.type.unit]
        number = int(value.cast(pa.int64()).as_py())
        return number * unit if unit > 0 else number // -unit
    return None


def _to_text(value: pa.Scalar) -> str:
    """A value as text for patterns; NULL is the empty text, which is no time."""
    if not value.is_valid:
        return ""
    if pt.is_date(value.type):
        return str(value.cast(pa.date32()).cast(pa.string()).as_py())
    if pt.is_timestamp(value.type):
        seconds = pa.scalar((_to_ms(value) or 0) // 1000, pa.timestamp("s"))
        return str(seconds.cast(pa.string()).as_py())
    if pt.is_boolean(value.type):
        return str(value.as_py()).lower()
    return str(value.as_py())
