"""The consumers of all tables, some tables at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.retention.consumer import Consumer, name_state
from lakelog.format.retention.lag import measure_lag
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo, TableName

from ..page import PAGE_ROWS, Column, Listing, PageRequest, table_address
from .walking import list_table_names, load_each

CONSUMERS: Final = (
    Column("consumer", "Consumer", "code"),
    Column("table", "Table", "code"),
    Column("state", "State", "state", "silent: no program reads under its name"),
    Column("snapshot_id", "Has done", "count", "the last snapshot that it has done"),
    Column("snapshots", "Snapshots behind", "count"),
    Column("rows", "Rows behind", "count", "without those of compactions; none: more than 1000 snapshots"),
    Column("behind_ms", "Behind by", "age", "how long ago the first snapshot to do that brings changes was committed"),
    Column("used_ms", "Last used", "time"),
    Column("expires_ms", "Expires", "time", "unless it is used"),
    Column("holder", "Read by", "code"),
)
_MAX_COUNTED: Final = 1000
"""Snapshots that are counted for the lag of one consumer."""

_TABLES: Final = 50
"""Tables that one page asks for consumers, with two requests each: an open page asks again every few seconds."""


@dataclass(frozen=True)
class _OfTable:
    info: TableInfo
    consumers: Sequence[Consumer]


def list_consumers(request: PageRequest, now_ms: int) -> Listing:
    """The consumers of the tables after the one that the address names.

    Args:
        request: The request.
        now_ms: The metastore's clock.
    """
    metastore, after = request.catalog.metastore, request.query.get("after", "")
    names = list(islice(list_table_names(metastore, after), _TABLES + 1))
    is_more, examined = len(names) > _TABLES, names[:_TABLES]
    found = [each for each in load_each(lambda name: _load_consumers(metastore, name), examined) if each is not None]
    pairs: list[tuple[TableInfo, Consumer]] = []
    last = str(examined[-1]) if examined else after
    for each in found:
        if pairs and len(pairs) + len(each.consumers) > PAGE_ROWS:
            # Tables are shown whole, but for one that has more consumers than a page has rows.
            last, is_more = str(pairs[-1][0].name), True
            break
        pairs += [(each.info, consumer) for consumer in each.consumers[:PAGE_ROWS]]
    missing = load_each(lambda pair: _load_missing(metastore, *pair), pairs)
    rows = [_show_consumer(*pair, each, now_ms) for pair, each in zip(pairs, missing, strict=True) if each is not None]
    empty = f"The {len(examined)} tables after {after} have no consumers." if after else "No table has consumers."
    return Listing(
        "consumers",
        "Consumers by table",
        CONSUMERS,
        rows,
        f"None of the first {len(examined)} tables has consumers." if is_more and not after else empty,
        next_query=request.with_query(after=last) if is_more else None,
    )


def _load_consumers(metastore: Metastore, name: TableName) -> _OfTable:
    info = metastore.get_table(name)
    return _OfTable(info, metastore.list_consumers(info.table_uuid))


def _load_missing(metastore: Metastore, info: TableInfo, consumer: Consumer) -> Sequence[Snapshot]:
    """The snapshots that a consumer has not done; at most so many as are counted."""
    if consumer.snapshot_id is None or consumer.snapshot_id >= info.latest_snapshot_id:
        return ()
    return metastore.list_snapshots(info.table_uuid, after=consumer.snapshot_id, limit=_MAX_COUNTED).snapshots


def _show_consumer(info: TableInfo, consumer: Consumer, missing: Sequence[Snapshot], now_ms: int) -> dict[str, Any]:
    """A row. Pure."""
    table = str(info.name)
    to_do = None if consumer.snapshot_id is None else max(info.latest_snapshot_id - consumer.snapshot_id, 0)
    lag = None if to_do is None else measure_lag(missing, to_do, now_ms)
    return {
        "consumer": consumer.consumer_id,
        "table": table,
        "state": name_state(consumer.holder, is_expired=consumer.is_expired),
        "snapshot_id": consumer.snapshot_id,
        "snapshots": to_do,
        "rows": None if lag is None or lag.is_least else lag.rows,
        "behind_ms": 0 if lag is None else lag.age_ms,
        "used_ms": consumer.used_at_ms,
        "expires_ms": consumer.expires_at_ms or None,
        "holder": consumer.holder or None,
        "_links": {"table": table_address(table), "consumer": table_address(table, "streams")},
    }
