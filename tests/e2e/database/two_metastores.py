"""Two metastores over a Postgres with a standby, and tables that are written and read through either."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from psycopg import OperationalError

from lakelog.client.metastore.metastore import WatchEvent, WatchPosition
from lakelog.errors import NotFound, OutcomeUnknown, Unavailable
from lakelog.format.tables.snapshot import Snapshot
from lakelog.results import WriteResult
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from metastore.use_cases import UseCases
from tests.support.metastore.opening import open_in_process
from tests.support.postgres_pair import PostgresPair

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
TABLE = "shop.orders"
WAIT_S = 20.0

T = TypeVar("T")


class TwoMetastores:
    """Two metastores on one database.

    Args:
        pair: Its servers.
        warehouse: A folder.
    """

    def __init__(self, pair: PostgresPair, warehouse: Path) -> None:
        self.pair = pair
        self.old, self.other = (
            open_in_process(pair.url, make_use_cases=lambda store: UseCases(store, f"file://{warehouse}"))
            for _ in range(2)
        )
        self.catalog, self.other_catalog = (Catalog(each, LocationStores()) for each in (self.old, self.other))

    def make_table(self, **options: str) -> Table:
        """A table with a primary key and one bucket."""
        self.catalog.create_database("shop", if_not_exists=True)
        return self.catalog.create_table(TABLE, SCHEMA, primary_key=["k"], options={"bucket": "1", **options})

    def fail_over(self) -> None:
        """The database fails over, and both metastores have a connection again."""
        self.pair.fail_over()
        for metastore in (self.old, self.other):
            repeat(metastore.list_databases)

    def close(self) -> None:
        for metastore in (self.old, self.other):
            metastore.close()


def write(table: Table, identifier: int, value: str, writer: str = "w") -> Snapshot:
    """Commits one row under a number of a writer, and returns the snapshot."""
    upsert(table, identifier, value, writer)
    return table._context.metastore.list_snapshots(table.uuid).snapshots[-1]


def upsert(table: Table, key: int, value: str, writer: str = "w", *, identifier: int | None = None) -> WriteResult:
    """Writes one row under a number, by default its key, and again if an attempt that was opened ahead is lost."""
    rows = pa.table({"k": [key], "v": [value]}, schema=SCHEMA)
    identifier = key if identifier is None else identifier
    while True:
        try:
            return repeat(lambda: table.upsert(rows, writer=writer, identifier=identifier))
        except NotFound as error:
            if error.reason != "ATTEMPT_NOT_FOUND":
                raise


def read(table: Table) -> list[str]:
    """The values of all rows."""
    return sorted(table.scan().to_arrow().column("v").to_pylist())


def position(table: Table, snapshot: Snapshot) -> list[WatchPosition]:
    return [WatchPosition(table.uuid, snapshot.snapshot_id, snapshot.snapshot_uuid)]


def take(events: Iterator[WatchEvent], count: int) -> list[str]:
    """The uuids of the next snapshots."""
    found: list[str] = []
    while len(found) < count:
        found += [snapshot.snapshot_uuid for snapshot in next(events).snapshots]
    return found


def repeat(call: Callable[[], T]) -> T:
    """What every client does while the database is away."""
    give_up_s = time.monotonic() + WAIT_S
    while True:
        try:
            return call()
        except (Unavailable, OutcomeUnknown, OperationalError):
            assert time.monotonic() < give_up_s
            time.sleep(0.05)
