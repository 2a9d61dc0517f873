"""Data files of a commit on the wire. This is a commit's hot path: one message for each file and column statistic."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from lakelog.format.tables.files import ColumnStatistics, DataFile
from lakelog.format.tables.packed_statistics import MOST_COLUMNS, Entry, PackedStatistics, pack_entries
from lakelog.rpc.messages import build
from lakelog.rpc.v1 import types_pb2


def to_proto_data_file(file: DataFile) -> types_pb2.DataFile:
    """Translates a file that a commit adds."""
    message = build(
        types_pb2.DataFile,
        path=file.path,
        partition=file.partition,
        bucket=file.bucket,
        level=file.level,
        row_count=file.row_count,
        delete_count=file.delete_count,
        size_bytes=file.size_bytes,
        # None leaves a field absent.
        min_key=file.min_key,
        max_key=file.max_key,
        schema_id=file.schema_id,
        deletion_vector_path=file.deletion_vector_path,
    )
    add = message.statistics.columns.add
    for column in file.statistics:
        try:
            # Attribute by attribute: keyword arguments cost a quarter more, and this runs for each column of each file.
            entry = add()
            entry.field_id = column.field_id
            entry.null_count = column.null_count
            if column.min_value is not None:
                entry.min_value = column.min_value
            if column.max_value is not None:
                entry.max_value = column.max_value
        except (TypeError, ValueError):
            build(types_pb2.ColumnStatistics, **vars(column))
            raise
    return message


def from_proto_data_file(message: types_pb2.DataFile) -> DataFile:
    """Translates a file that a commit adds back. The commit rules decide whether it is valid."""
    return DataFile(
        message.path,
        message.partition,
        message.bucket,
        message.level,
        message.row_count,
        message.delete_count,
        message.size_bytes,
        message.min_key if message.HasField("min_key") else None,
        message.max_key if message.HasField("max_key") else None,
        message.schema_id,
        _from_proto_statistics(message.statistics.columns),
        message.deletion_vector_path if message.HasField("deletion_vector_path") else None,
    )


def _from_proto_statistics(columns: Collection[types_pb2.ColumnStatistics]) -> Sequence[ColumnStatistics]:
    """The statistics of a file, packed at once: a commit can have millions of columns."""
    if not columns:
        return ()
    entries = map(_to_entry, columns)
    # The request's check refuses so many.
    return PackedStatistics(pack_entries(entries)) if len(columns) <= MOST_COLUMNS else _unpacked(entries)


def _unpacked(entries: Iterable[Entry]) -> tuple[ColumnStatistics, ...]:
    return tuple([ColumnStatistics(*entry) for entry in entries])


def _to_entry(message: types_pb2.ColumnStatistics) -> Entry:
    # An empty bound is a bound (the empty string), so an empty value needs a check for absence.
    low = message.min_value or (b"" if message.HasField("min_value") else None)
    high = message.max_value or (b"" if message.HasField("max_value") else None)
    return message.field_id, message.null_count, low, high
