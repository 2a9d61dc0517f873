"""Streams on the wire of the reader service: positions, and rows as Arrow IPC messages of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from lakelog.errors import ResourceExhausted
from lakelog.reads.streams.batch import Position, StreamBatch
from lakelog.reads.streams.request import ResumePoint
from lakelog.rpc.messages import build
from lakelog.rpc.translation import Translation
from lakelog.rpc.v1 import reader_pb2

to_proto_resume_point, from_proto_resume_point = Translation(ResumePoint, reader_pb2.ResumePoint).both


def to_proto_positions(positions: Mapping[str, Position]) -> list[reader_pb2.StreamPosition]:
    """Translates positions by table (`database.table`)."""
    return [
        build(reader_pb2.StreamPosition, table=table, snapshot_id=at.snapshot_id, snapshot_uuid=at.snapshot_uuid)
        for table, at in positions.items()
    ]


def from_proto_positions(messages: Iterable[reader_pb2.StreamPosition]) -> dict[str, Position]:
    """Translates positions back."""
    return {each.table: Position(each.snapshot_id, each.snapshot_uuid) for each in messages}


def to_proto_skipped(skipped: Mapping[str, Sequence[int]]) -> list[reader_pb2.SkippedSnapshots]:
    """Translates snapshots that show nothing, by table (`database.table`)."""
    return [build(reader_pb2.SkippedSnapshots, table=table, snapshot_ids=ids) for table, ids in skipped.items()]


def from_proto_skipped(messages: Iterable[reader_pb2.SkippedSnapshots]) -> dict[str, tuple[int, ...]]:
    """Translates snapshots that show nothing back."""
    return {each.table: tuple(each.snapshot_ids) for each in messages}


class RowsEncoder:
    """Makes messages of the batches of one stream; sends the schema of a table when it changes.

    Args:
        max_bytes: The size of the largest Arrow message; larger batches become several.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._schemas: dict[str, pa.Schema] = {}

    def encode(self, batch: StreamBatch) -> Iterator[reader_pb2.StreamRows]:
        """Returns the messages of a batch, in the order of its rows.

        Raises:
            ResourceExhausted: A single row is larger than a message may be.
        """
        data = _without_dictionaries(batch.data)
        schema = b""
        if self._schemas.get(batch.table) != data.schema:
            self._schemas[batch.table] = data.schema
            schema = data.schema.serialize().to_pybytes()
        for part in self._split(data, batch):
            yield reader_pb2.StreamRows(table=batch.table, snapshot_id=batch.snapshot_id, schema=schema, batch=part)
            schema = b""

    def _split(self, data: pa.RecordBatch, batch: StreamBatch) -> Iterator[bytes]:
        # Rows outside a slice are not sent, so only its own size counts.
        if data.num_rows > 1 and data.get_total_buffer_size() > self._max_bytes and data.nbytes > self._max_bytes:
            parts: tuple[pa.RecordBatch, ...] = _halves(data)
        else:
            message = data.serialize()
            if message.size <= self._max_bytes:
                yield message.to_pybytes()
                return
            if data.num_rows <= 1:
                raise ResourceExhausted(
                    f"A row of {batch.table} in snapshot {batch.snapshot_id} has {message.size} bytes, and a message "
                    f"of the reader service holds {self._max_bytes}. Leave out its large columns, or read the table "
                    "without the service.",
                    reason="ROW_TOO_LARGE",
                    metadata={"table": batch.table, "snapshot_id": str(batch.snapshot_id)},
                )
            parts = _halves(data)
        for part in parts:
            yield from self._split(part, batch)


class RowsDecoder:
    """Makes batches of the messages of one stream."""

    def __init__(self) -> None:
        self._schemas: dict[str, pa.Schema] = {}

    def decode(self, rows: reader_pb2.StreamRows) -> StreamBatch:
        """Returns the batch of a message."""
        if rows.schema:
            self._schemas[rows.table] = pa.ipc.read_schema(pa.py_buffer(rows.schema))
        data = pa.ipc.read_record_batch(pa.py_buffer(rows.batch), self._schemas[rows.table])
        return StreamBatch(data, rows.snapshot_id, rows.table)


def _halves(data: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    middle = data.num_rows // 2
    return data.slice(0, middle), data.slice(middle)


def _without_dictionaries(data: pa.RecordBatch) -> pa.RecordBatch:
    """Decodes dictionaries, which would need messages of their own."""
    if not any(pa.types.is_dictionary(field.type) for field in data.schema):
        return data
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in data.schema
    ]
    return data.cast(pa.schema(fields))
