"""Tables with a history, and what comes of a subscription to them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

from .shop import make_orders, orders

WAIT_S = 20.0


def rows(stream: Subscription, count: int) -> list[tuple[Any, ...]]:
    """The next rows: snapshot, kind (where there is one), id, name."""
    found: list[tuple[Any, ...]] = []
    while len(found) < count:
        batch = stream.read(WAIT_S)
        assert batch is not None, f"only {found} came"
        for row in batch.data.to_pylist():
            kind = [row["_row_kind"]] if "_row_kind" in row else []
            found.append((batch.snapshot_id, *kind, row["id"], row["name"]))
    assert len(found) == count
    return found


def is_silent(stream: Subscription) -> bool:
    return stream.read(0.3) is None and not stream.ended


def make_history(catalog: Catalog, **options: str) -> Table:
    table = make_orders(catalog, **options)
    table.upsert(orders((1, "a", None), (2, "b", None)))
    table.upsert(orders((2, "B", None)))
    table.delete(pa.table({"id": [1]}))
    return table


def make_appended(catalog: Catalog) -> Table:
    catalog.create_database("shop", if_not_exists=True)
    return catalog.create_table("shop.appended", orders((1, "a", None)).schema)
