"""Making a subscription: arguments and options are checked, the consumer is opened, the beginning is found."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lakelog.arguments import to_option_texts
from lakelog.errors import InvalidArgument
from lakelog.follow import StreamView, TableFollower
from lakelog.format.consumer import Consumer, ConsumerPosition
from lakelog.format.filter import parse_filter
from lakelog.format.table import TableInfo
from lakelog.options.option import Option
from lakelog.options.stream_options import (
    CONSUMER_ID,
    EXPIRED_POSITION,
    SCAN_BOUNDED_WATERMARK,
    SCAN_MODE,
    SCAN_REMOVE_NORMALIZE,
    STREAM_READ_OVERWRITE,
)
from lakelog.options.table_options import STREAMING_READ_OVERWRITE
from lakelog.options.values import StreamOptions, TableOptions
from lakelog.reading import check_columns, to_names
from lakelog.stream_batch import Position
from lakelog.stream_start import find_start, resume
from lakelog.subscription import Subscription

if TYPE_CHECKING:
    from lakelog.catalog import Catalog


_KEEP_EVERY_MS: Final = 15_000
"""How often a reader that waits says that it is there."""


def subscribe(
    catalog: Catalog,
    table: TableInfo,
    *,
    scan_mode: str | None,
    consumer_id: str | None,
    auto_commit: bool,
    columns: Sequence[str] | None,
    filter: str | None,  # noqa: A002
    options: Mapping[str, Any] | None,
) -> Subscription:
    """Subscribes to one table; arguments as of `lakelog.table.Table.subscribe`."""
    given = to_option_texts({} if options is None else options)
    for option, name, value in ((SCAN_MODE, "scan_mode", scan_mode), (CONSUMER_ID, "consumer_id", consumer_id)):
        _join(given, option, name, value)
    parsed = StreamOptions(given)
    view = _to_view(table, parsed, columns, filter)
    consumer_name = parsed.get(CONSUMER_ID)
    consumer = None
    if consumer_name is not None:
        (consumer,) = catalog.metastore.open_consumer(
            consumer_name, [table.table_uuid], f"{socket.gethostname()}:{os.getpid()}"[:256]
        )
    if consumer is None or consumer.snapshot_id is None:
        start, position = find_start(catalog.metastore, table, parsed), None
    else:
        start = resume(catalog.metastore, table, parsed, consumer)
        position = Position(consumer.snapshot_id, consumer.snapshot_uuid)
    follower = TableFollower(catalog, table, start, view)
    return Subscription(
        str(table.name),
        follower,
        position,
        _keeper(catalog, consumer),
        auto_commit=auto_commit,
        keep_every_s=None if consumer is None else _keep_every_s(consumer),
    )


class _Keeper:
    """Keeps a reader's position in the metastore."""

    def __init__(self, catalog: Catalog, consumer: Consumer) -> None:
        self._catalog = catalog
        self._consumer = consumer

    def __call__(self, position: Position) -> None:
        moved = ConsumerPosition(
            self._consumer.table_uuid, self._consumer.epoch, position.snapshot_id, position.snapshot_uuid
        )
        self._catalog.metastore.advance_consumer(self._consumer.consumer_id, [moved])


def _keeper(catalog: Catalog, consumer: Consumer | None) -> Any:
    return _forget if consumer is None else _Keeper(catalog, consumer)


def _keep_every_s(consumer: Consumer) -> float:
    """Several times in the span after which an unused consumer expires."""
    lives_ms = consumer.expires_at_ms - consumer.used_at_ms if consumer.expires_at_ms else _KEEP_EVERY_MS
    return max(min(lives_ms / 4, _KEEP_EVERY_MS) / 1000, 0.05)


def _forget(position: Position) -> None:
    """A reader without a name keeps its position itself."""


def _join(given: dict[str, str], option: Option[Any], name: str, value: str | None) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise InvalidArgument(f"{name}={value!r:.80} is no text.", metadata={"field": name})
    if option.key in given:
        raise InvalidArgument(
            f"{name}= and option '{option.key}' say the same. Give one of them.",
            reason="CONTRADICTING_OPTIONS",
            metadata={"option": name, "other_option": option.key},
        )
    given[option.key] = value


def _to_view(
    table: TableInfo, options: StreamOptions, columns: Sequence[str] | None, condition: str | None
) -> StreamView:
    if condition is not None:
        parse_filter(condition, table.schema.arrow)
    names = None if columns is None else check_columns(to_names(columns), table.schema, str(table.name))
    overwrites = options.get(STREAM_READ_OVERWRITE)
    if overwrites is None:
        overwrites = TableOptions(table.options).get(STREAMING_READ_OVERWRITE)
    raw = options.get(SCAN_REMOVE_NORMALIZE)
    if raw and table.schema.primary_key and overwrites:
        if options.get(STREAM_READ_OVERWRITE):
            raise InvalidArgument(
                f"Options '{SCAN_REMOVE_NORMALIZE.key}' and '{STREAM_READ_OVERWRITE.key}' contradict each other: rows "
                "as they were written do not tell what an overwrite took away. Leave one out.",
                reason="CONTRADICTING_OPTIONS",
                metadata={"option": SCAN_REMOVE_NORMALIZE.key, "other_option": STREAM_READ_OVERWRITE.key},
            )
        # The table's option is for those who read its changes.
        overwrites = False
    return StreamView(
        names,
        condition,
        raw=raw,
        overwrites=overwrites,
        last_watermark_ms=options.get(SCAN_BOUNDED_WATERMARK),
        expired=options.get(EXPIRED_POSITION),
    )
