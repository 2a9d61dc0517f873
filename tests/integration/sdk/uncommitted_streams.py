"""Tables whose rows are in the log before their commit, commits that are held back, and a reader who is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.sdk.transaction import Transaction

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64()), ("w", pa.string())])
OPTIONS = {"log.system": "kafka", "log.consistency": "eventual", "bucket": "2"}
SOON_S = 10.0
"""Far longer than a row takes; no test waits for so long."""


def make(catalog: Catalog, options: Mapping[str, str] | None = None, *, keyed: bool = True) -> Table:
    options = {**OPTIONS, **(options or {})}
    if not keyed:
        del options["bucket"]
    return catalog.create_table("shop.orders", SCHEMA, primary_key=["k"] if keyed else [], options=options)


def rows(*keys: int, value: int = 1) -> pa.Table:
    return pa.table({"k": keys, "v": [value] * len(keys), "w": ["x"] * len(keys)}, schema=SCHEMA)


class Folder:
    """Applies what it is told by key; what is said of the row before has to be what it was told."""

    def __init__(self, stream: Subscription) -> None:
        self.stream = stream
        self.rows: dict[int, tuple[Any, ...]] = {}
        self.emitted: list[tuple[int, str, int]] = []
        """Snapshot, kind and key of each."""
        self.replaced: int | None = None

    def read_until(self, is_done: Callable[[], bool]) -> None:
        end_s = time.monotonic() + SOON_S
        while not is_done():
            assert time.monotonic() < end_s, f"told {self.emitted}, has {self.rows}"
            self.read(0.05)

    def read(self, timeout_s: float) -> None:
        batch = self.stream.read(timeout_s)
        if batch is None:
            return
        assert batch.is_early == (batch.snapshot_id == 0)
        assert not (batch.is_early and self.stream.is_whole), "no position stands behind it"
        for row in batch.data.to_pylist():
            kind, key = row.pop("_row_kind"), row["k"]
            self.emitted.append((batch.snapshot_id, kind, key))
            row_now = tuple(row.values())
            if kind == "+U":
                assert self.replaced == key, "an old row stands right before"
                self.replaced = None
            else:
                assert self.rows.pop(key, None) == (None if kind == "+I" else row_now), (kind, key)
                self.replaced = key if kind == "-U" else None
            if kind in ("+I", "+U"):
                self.rows[key] = row_now


def read_rows(table: Table, snapshot_id: int | None = None) -> dict[int, tuple[Any, ...]]:
    rows = table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
    return {row["k"]: tuple(row.values()) for row in rows}


def send(
    catalog: Catalog, data: pa.Table, table: Table, writer: str | None = None, identifier: int | None = None
) -> Transaction:
    """Writes rows that stand in the log, and whose commit is held back."""
    tx = catalog.transaction(writer=writer, identifier=identifier)
    target = tx.table("shop.orders")
    if "_row_kind" in data.schema.names:
        target.write(data)
    elif table.info.schema.primary_key:
        target.upsert(data)
    else:
        target.append(data)
    uncommitted = tx._table_writes[table.uuid].uncommitted
    assert uncommitted is not None
    assert uncommitted.finish() is not None
    return tx


def read_values(stream: Subscription, count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    end_s = time.monotonic() + SOON_S
    while len(found) < count and time.monotonic() < end_s:
        batch = stream.read(0.05)
        if batch is not None:
            found += [(batch.snapshot_id, key) for key in batch.data.column("k").to_pylist()]
    return found


def die(tx: Transaction) -> None:
    """The process of a transaction is gone: nobody commits it, aborts it or says that it is alive."""
    for write in tx._table_writes.values():
        write.stop_sending()
    tx._ended = True
