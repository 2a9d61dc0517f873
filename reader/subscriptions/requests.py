"""The requests of clients, checked."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.arguments import parse_table_name
from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableName
from lakelog.reads.streams.request import ResumePoint, StreamRequest, check_together
from lakelog.reads.streams.wire import from_proto_resume_point
from lakelog.rpc.v1 import reader_pb2
from lakelog.serving.edge.request_bounds import RequestBounds

_DEFAULT_BYTES = 16 << 20
_MOST_BYTES = 64 << 20
_DEFAULT_MESSAGES = 64
_MOST_MESSAGES = 256
_MOST_TABLES = 1000
_MOST = 2**62 - 1
"""The largest snapshot id and epoch, as in the metastore."""
_MOST_BYTES_OF_A_MESSAGE = 4 << 20

SUBSCRIBE_BOUNDS = RequestBounds(
    "Subscribe",
    reader_pb2.SubscribeRequest.DESCRIPTOR,
    _MOST_BYTES_OF_A_MESSAGE,
    {
        "SubscribeStart.tables": _MOST_TABLES,
        "SubscribeStart.options": _MOST_TABLES,
        "SubscribeStart.resume": _MOST_TABLES,
        "StreamColumns.names": 100_000,
        "KeepPositions.positions": _MOST_TABLES,
    },
)
"""The bounds of one message of a client."""


@dataclass(frozen=True)
class Start:
    """A subscription as the client requests it.

    Args:
        tables: Names, each with the uuid that it must have (empty: any).
        request: What to show of them.
        points: The client's positions, in the order of the tables; none: it begins.
        max_bytes: The most bytes on their way.
        max_messages: The most messages on their way.
    """

    tables: tuple[tuple[TableName, str], ...]
    request: StreamRequest
    points: tuple[ResumePoint, ...]
    max_bytes: int
    max_messages: int


def to_start(message: reader_pb2.SubscribeRequest) -> Start:
    """Checks the first message of a client. Pure.

    Raises:
        InvalidArgument: Something is missing or not valid; the error names it.
    """
    if message.WhichOneof("request") != "start":
        raise InvalidArgument(
            "The first message has no start. Send what to subscribe to first.", metadata={"field": "start"}
        )
    start = message.start
    if len(start.tables) > _MOST_TABLES:
        raise InvalidArgument(
            f"start.tables names {len(start.tables)} tables. Name at most {_MOST_TABLES}.",
            metadata={"field": "start.tables"},
        )
    names = [parse_table_name(table.name) for table in start.tables]
    check_together(names, {})
    columns = {table.name: tuple(table.columns.names) for table in start.tables if table.HasField("columns")}
    filters = {table.name: table.filter for table in start.tables if table.HasField("filter")}
    return Start(
        tuple((name, table.table_uuid) for name, table in zip(names, start.tables, strict=True)),
        StreamRequest(dict(start.options), columns, filters),
        _to_points(start),
        _bounded("max_bytes", start.max_bytes, _DEFAULT_BYTES, _MOST_BYTES),
        _bounded("max_messages", start.max_messages, _DEFAULT_MESSAGES, _MOST_MESSAGES),
    )


def _to_points(start: reader_pb2.SubscribeStart) -> tuple[ResumePoint, ...]:
    points = tuple(from_proto_resume_point(point) for point in start.resume)
    if points and len(points) != len(start.tables):
        raise InvalidArgument(
            f"start.resume has {len(points)} points for {len(start.tables)} tables. Give one for each, in their order, "
            "or none to begin.",
            metadata={"field": "start.resume"},
        )
    for point in points:
        numbers = (point.snapshot_id, point.received_rows, point.epoch)
        if min(numbers) < 0 or max(numbers) > _MOST:
            kind = "a negative number" if min(numbers) < 0 else f"a number above {_MOST}"
            raise InvalidArgument(
                f"start.resume has {kind} for table {point.table_uuid!r:.80}. Give back what was sent.",
                metadata={"field": "start.resume"},
            )
    return points


def _bounded(field: str, given: int, default: int, most: int) -> int:
    if not 0 <= given <= most:
        raise InvalidArgument(
            f"start.{field}={given} is not possible. Give 1 to {most}, or 0 for {default}.",
            metadata={"field": f"start.{field}"},
        )
    return given or default
