"""Makes a subscription, which reads in this process or through a reader service."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from lakelog.arguments import check_flag
from lakelog.client.connection.reader_target import ReaderTarget
from lakelog.context import Context
from lakelog.format.tables.table import TableInfo
from lakelog.reads.streams.feeds import Feed, Follower, SteppedFeed, ThreadFeed
from lakelog.reads.streams.follow import TablesFollower
from lakelog.reads.streams.open_stream import OpenStream, open_stream
from lakelog.reads.streams.request import to_request
from lakelog.reads.streams.subscription import Subscription


def subscribe(
    context: Context,
    tables: Sequence[TableInfo],
    *,
    scan_mode: str | None,
    consumer_id: str | None,
    auto_commit: bool,
    columns: Mapping[str, Sequence[str]],
    filters: Mapping[str, str],
    options: Mapping[str, Any] | None,
    reader: ReaderTarget | None,
) -> Subscription:
    """Subscribes to tables, each named once.

    Args:
        context: The metastore, stores, caches and clock.
        tables: At least one.
        scan_mode: As of `lakelog.Table.subscribe`, and so are the others.
        consumer_id: The consumer of all tables together.
        auto_commit: Whether the position moves by itself.
        columns: Columns by the table's name; tables that are missing here show all.
        filters: Conditions by the table's name.
        options: Options of the subscription.
        reader: The reader service that reads; None: this process reads.
    """
    check_flag(auto_commit, "auto_commit")
    request = to_request(
        scan_mode=scan_mode, consumer_id=consumer_id, columns=columns, filters=filters, options=options
    )
    holder = f"{socket.gethostname()}:{os.getpid()}"
    stream: OpenStream
    if reader is None:
        stream = open_stream(context, tables, request, holder=holder)
    else:
        from lakelog.reads.streams.remote_stream import open_remote_stream

        stream = open_remote_stream(reader, tables, request)
    return Subscription(
        ", ".join(str(table.name) for table in tables),
        stream.follower,
        stream.positions,
        stream.keep,
        auto_commit=auto_commit,
        keep_every_s=stream.keep_every_s,
        open_feed=None if context.ready_watches is None else _open_feed,
    )


def _open_feed(follower: Follower, closed: threading.Event) -> Feed:
    """What a reader takes from that never waits: only some followers yield control while nothing comes."""
    if isinstance(follower, TablesFollower) and not follower.waits:
        return SteppedFeed(follower)
    return ThreadFeed(follower, closed)
