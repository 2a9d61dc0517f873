"""Tables, rows and what comes of a subscription, for the tests of the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.replicas import Replica

SUBSCRIPTIONS = "lakelog_reader_subscriptions"
WAIT_S = 30.0
ITEMS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
Start = Callable[..., Replica]


def items(*ids: int, v: str = "x") -> pa.Table:
    return pa.table({"id": ids, "v": [f"{v}{each}" for each in ids]}, ITEMS)


def make_keyed(catalog: Catalog, database: str, name: str = "keyed") -> Table:
    return catalog.create_table(f"{database}.{name}", ITEMS, primary_key=["id"], options={"bucket": "2"})


def make_append(catalog: Catalog, database: str, name: str = "append") -> Table:
    return catalog.create_table(f"{database}.{name}", ITEMS)


def take(stream: Subscription, count: int) -> list[tuple[Any, ...]]:
    """The next rows: table, snapshot, then the columns."""
    found: list[tuple[Any, ...]] = []
    while len(found) < count:
        batch = stream.read(WAIT_S)
        assert batch is not None, f"only {len(found)} of {count} rows came: {found[-5:]}"
        found += [(batch.table, batch.snapshot_id, *row.values()) for row in batch.data.to_pylist()]
    assert len(found) == count
    return found


def is_silent(stream: Subscription) -> bool:
    return stream.read(0.3) is None and not stream.ended
