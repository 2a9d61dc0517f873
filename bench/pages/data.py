"""What the pages of CONSOLE show: a database with a large, a long, a wide and a live table, and many others.

The large and the long table exist in the metastore only. Of the others, every tenth has commits, jobs and a consumer,
and some have logs.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from bench.context import Bench
from bench.plans import DATABASE, PlannedTable, create_planned_table
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.format.tables.grant import GrantLevel
from lakelog.format.tables.table import TableName
from lakelog.log.memory import MemoryCluster, MemoryLog
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.logs.brokers import Brokers
from metastore.ownership import EVERYONE
from metastore.postgres import PostgresStore, migrate
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases

LARGE: Final = "large"
LONG: Final = "long"
WIDE: Final = "wide"
DAYS: Final = "days"
LIVE: Final = "live"
GRANTED: Final = "ann"
"""A caller that has a grant on the database, and no role."""

LIVE_SCHEMA: Final = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("item", pa.string()), ("price", pa.float64())]
)
_BROKER: Final = "localhost:1"
_AT_ONCE: Final = 16


@dataclass(frozen=True)
class Sizes:
    """How much there is.

    Args:
        files: Live files of the large table.
        snapshots: Of the long table.
        tables: Further tables.
        columns: Of the wide table.
        partitions: Of another one, each with a file.
        logs: Tables with a log.
        grants: Callers with a grant on the wide table.
    """

    files: int
    snapshots: int
    tables: int
    columns: int
    partitions: int
    logs: int
    grants: int


def sizes_of(bench: Bench) -> Sizes:
    """The sizes of a run: each can be given by its name."""
    return Sizes(
        files=bench.sized("files", 1_000_000),
        snapshots=bench.sized("snapshots", 30_000),
        tables=bench.sized("tables", 10_000),
        columns=bench.sized("columns", 1000),
        partitions=bench.sized("partitions", 100_000),
        logs=bench.sized("logs", 200),
        grants=bench.sized("grants", 1000),
    )


def build(folder: Path, sizes: Sizes) -> None:
    """Makes the data in a folder of its own, unless it is there already; other data there is removed."""
    made = folder / "made.json"
    if made.exists() and json.loads(made.read_text()) == asdict(sizes):
        return
    shutil.rmtree(folder, ignore_errors=True)
    with EmbeddedPostgres(folder / "postgres") as postgres:
        migrate(postgres.database_url)
        log = MemoryLog(MemoryCluster())
        brokers = Brokers([[_BROKER]], lambda _options: log)

        async def open_store() -> Store:
            return PostgresStore(postgres.database_url)

        def make_use_cases(store: Store) -> UseCases:
            return UseCases(store, warehouse_of(folder), brokers=brokers)

        metastore = in_process(open_store, make_use_cases)
        try:
            metastore.create_database(DATABASE)
            metastore.run(_fill(metastore.use_cases, sizes))
            _make_wide_and_live(metastore, sizes)
        finally:
            metastore.close()
    made.write_text(json.dumps(asdict(sizes)))


def warehouse_of(folder: Path) -> str:
    """Where the rows of the live table are."""
    return f"file://{folder}/warehouse/"


async def _fill(use_cases: UseCases, sizes: Sizes) -> None:
    large = await create_planned_table(use_cases, LARGE)
    await large.fill(sizes.files)
    long = await create_planned_table(use_cases, LONG)
    await long.add_empty_snapshots(sizes.snapshots)
    await add_days(use_cases, sizes.partitions)
    await _each(
        range(sizes.tables),
        lambda number: _add_table(use_cases, number, has_log=number % 10 == 1 and number < 10 * sizes.logs),
    )


async def add_days(use_cases: UseCases, partitions: int) -> None:
    """Adds the table with many partitions."""
    days = await create_planned_table(use_cases, DAYS)
    days.files_per_day = 1
    await days.fill(partitions)


async def _add_table(use_cases: UseCases, number: int, *, has_log: bool) -> None:
    info, _ = await use_cases.catalog.create_table(
        TableName(DATABASE, f"t{number}"),
        pa.schema([pa.field("day", pa.int32(), nullable=False), pa.field("id", pa.int64(), nullable=False)]),
        primary_key=["day", "id"],
        partition_by=["day"],
        options={"bucket": "16", **({"log.system": "kafka"} if has_log else {})},
        by=EVERYONE,
    )
    if number % 10 == 0:
        table = PlannedTable(use_cases, info.table_uuid, writer=f"w{number}")
        for _ in range(3):
            await table.add_files(5)
        await use_cases.consumers.open_consumer(f"c{number}", [info.table_uuid], "bench", by=EVERYONE)
        await use_cases.consumers.reset_consumer(info.table_uuid, f"c{number}", 1, by=EVERYONE)


async def _each(numbers: Iterable[int], work: Callable[[int], Awaitable[None]]) -> None:
    left = iter(numbers)

    async def take() -> None:
        for number in left:
            await work(number)

    await asyncio.gather(*[take() for _ in range(_AT_ONCE)])


def _make_wide_and_live(metastore: InProcessMetastore, sizes: Sizes) -> None:
    catalog = Catalog(metastore, LocationStores())
    columns = pa.schema(
        [pa.field(f"c{number}", pa.string(), metadata={"comment": "?"}) for number in range(sizes.columns)]
    )
    wide = catalog.create_table(f"{DATABASE}.{WIDE}", columns)
    wide.append(pa.Table.from_pylist([{"c0": "x"}] * 20, schema=columns))
    live = catalog.create_table(f"{DATABASE}.{LIVE}", LIVE_SCHEMA, primary_key=["id"], options={"bucket": "2"})
    for number in range(5):
        live.upsert(live_rows(number))
    metastore.grant(DATABASE, "", GrantLevel.READER, GRANTED)
    for number in range(sizes.grants):
        metastore.grant(DATABASE, WIDE, GrantLevel.READER, f"reader{number}")


def live_rows(number: int) -> pa.Table:
    """The rows of a commit to the live table."""
    ids = range(number * 50, number * 50 + 100)
    rows = {"id": list(ids), "item": [f"item {each}" for each in ids], "price": [each / 7 for each in ids]}
    return pa.table(rows, schema=LIVE_SCHEMA)
