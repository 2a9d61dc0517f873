"""W13: whether commits and plans become slower as a table or a metastore grows, a hundredfold and in three steps.

Everything is the use cases in this process on a real Postgres. What is measured of a larger state is held against the
state a tenth as large, measured in turn with it.

- files: live files of the table, from 1000;
- snapshots: of the table, from 100, all but one of them without files;
- tables: of the metastore, from 10; each metastore has a Postgres of its own;
- rows: of the table, from 20,000 in two buckets; commits are upserts of 1000 rows by the SDK, files and all.

A commit is its attempt as well; a pruned plan is one bucket of a partition (of the rows: one bucket); an incremental
plan is the last snapshot.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.context import Bench
from bench.latency import Call, measure_latencies
from bench.measure import Figure, WrongAnswerError
from bench.plans import (
    BUCKETS,
    DATABASE,
    FILES_PER_DAY,
    PlannedTable,
    create_planned_table,
    encode_day,
    plan_file_ids,
    send_plan,
)
from bench.shapes import order_free_hash, q1, q1_schema
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.format.tables.plan import AtSnapshot, InRange, PlanRequest
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from metastore.postgres import PostgresStore, migrate
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases

TITLE = "growth of files, snapshots, tables and rows x 1, x 10, x 100: commit, pruned plan, incremental plan"
_STEPS = (1, 10, 100)
_FILES = 1000
_SNAPSHOTS = 100
_TABLES = 10
_ROWS = 20_000
_COMMIT_ROWS = 1000
_BUCKETS = 2
_TARGET = 1.1
_CALLS = 25
_FILES_OF_A_TABLE = 10


@dataclass(frozen=True)
class _State:
    """One size of what grows, as three calls."""

    label: str
    commit: Call
    pruned: Call
    incremental: Call


def run(bench: Bench) -> Iterator[Figure]:
    """All figures; a quick run begins with a tenth of each number, but for files: a whole partition is always there."""
    with asyncio.Runner() as runner:
        for figures in (_files(bench), _snapshots(bench), _tables(bench)):
            yield from runner.run(figures)
        yield from _rows(bench, runner)


async def _files(bench: Bench) -> list[Figure]:
    async with _open_service(bench.folder / "files") as use_cases:
        states = []
        for step in _STEPS:
            count = _FILES * step
            table = await create_planned_table(use_cases, f"f{step}")
            await table.fill(count)
            states.append(await _planned(f"{count:,} files", table))
        return await _measure(states, bench.pairs)


async def _snapshots(bench: Bench) -> list[Figure]:
    async with _open_service(bench.folder / "snapshots") as use_cases:
        states = []
        for step in _STEPS:
            count = bench.scaled(_SNAPSHOTS) * step
            table = await create_planned_table(use_cases, f"s{step}")
            await table.fill(_FILES)
            await table.add_empty_snapshots(count - table.snapshots)
            states.append(await _planned(f"{count:,} snapshots", table))
        return await _measure(states, bench.pairs)


async def _tables(bench: Bench) -> list[Figure]:
    async with contextlib.AsyncExitStack() as stack:
        states = []
        for step in _STEPS:
            use_cases = await stack.enter_async_context(_open_service(bench.folder / f"tables{step}"))
            count = bench.scaled(_TABLES) * step
            tables = [await create_planned_table(use_cases, f"t{number}") for number in range(count)]
            for table in tables:
                await table.add_files(_FILES_OF_A_TABLE)
            await tables[count // 2].fill(_FILES)
            states.append(await _planned(f"{count:,} tables", tables[count // 2]))
        return await _measure(states, bench.pairs)


def _rows(bench: Bench, runner: asyncio.Runner) -> Iterator[Figure]:
    folder = bench.folder / "rows"
    with EmbeddedPostgres(folder / "postgres") as postgres:
        migrate(postgres.database_url)

        async def open_store() -> Store:
            return PostgresStore(postgres.database_url)

        metastore = in_process(open_store, lambda store: UseCases(store, f"file://{folder}/warehouse/"))
        with Catalog(metastore, LocationStores()) as catalog:
            catalog.create_database(DATABASE)
            counts = [bench.scaled(_ROWS) * step for step in _STEPS]
            tables = [_upserted_table(catalog, count) for count in counts]
            states = [
                _upserted(f"{count:,} rows", metastore, table, count)
                for table, count in zip(tables, counts, strict=True)
            ]
            yield from runner.run(_measure(states, bench.pairs))
            for table, count in zip(tables, counts, strict=True):
                ids = table.scan(["id"]).to_arrow()
                expected = pa.table({"id": np.arange(count)})
                if (ids.num_rows, order_free_hash(ids)) != (count, order_free_hash(expected)):
                    raise WrongAnswerError(f"a table of {count} rows has {ids.num_rows} after its upserts")


async def _measure(grown: Sequence[_State], turns: int) -> list[Figure]:
    figures = []
    for what in ("commit", "pruned", "incremental"):
        latencies = await measure_latencies([getattr(state, what) for state in grown], turns=turns, calls=_CALLS)
        for place in range(1, len(grown)):
            name = f"{grown[place].label} against {grown[place - 1].label}: {what}{' plan' * (what != 'commit')}"
            figures.append(latencies.against(name, place, place - 1, at_most_times=_TARGET))
    return figures


@contextlib.asynccontextmanager
async def _open_service(folder: Path) -> AsyncIterator[UseCases]:
    with EmbeddedPostgres(folder) as postgres:
        migrate(postgres.database_url)
        store = PostgresStore(postgres.database_url)
        use_cases = UseCases(store, "file:///bench")
        await use_cases.catalog.create_database(DATABASE)
        yield use_cases
        await use_cases.close()
        await store.close()


async def _planned(label: str, table: PlannedTable) -> _State:
    # One file more, so that the last snapshot is the same in all states.
    await table.add_files(1)
    pruned = PlanRequest(table.table_uuid, partitions=(encode_day(0),), buckets=(3,))
    incremental = PlanRequest(table.table_uuid, at=InRange(table.snapshots - 1, table.snapshots))
    in_bucket = len(range(3, min(FILES_PER_DAY, table.files), BUCKETS))
    for request, expected in ((pruned, in_bucket), (incremental, 1)):
        found = await plan_file_ids(table.use_cases, request)
        if len(found) != expected or (expected == 1 and found[0] != table.files):
            raise WrongAnswerError(f"{label}: a plan lists the files {found}, not {expected} of {table.files}")
    return _State(
        label,
        functools.partial(table.add_files, 1),
        functools.partial(send_plan, table.use_cases, pruned),
        functools.partial(send_plan, table.use_cases, incremental),
    )


def _upserted_table(catalog: Catalog, rows: int) -> Table:
    table = catalog.create_table(
        f"{DATABASE}.r{rows}", q1_schema(), primary_key=["id"], options={"bucket": str(_BUCKETS)}
    )
    table.upsert(q1(np.arange(rows), 1))
    return table


def _upserted(label: str, metastore: InProcessMetastore, table: Table, rows: int) -> _State:
    random = np.random.default_rng(rows)
    data = q1(random.choice(rows, _COMMIT_ROWS, replace=False), 2)
    last = table.upsert(data).snapshot_id
    assert last is not None
    pruned = PlanRequest(table.uuid, at=AtSnapshot(last), buckets=(0,))
    incremental = PlanRequest(table.uuid, at=InRange(last - 1, last))
    for request, expected in ((pruned, 2), (incremental, _BUCKETS)):
        found = metastore.plan(request).files.num_rows
        if found != expected:
            raise WrongAnswerError(f"{label}: a plan lists {found} files, not {expected}")

    async def commit() -> None:
        table.upsert(data)

    async def plan(request: PlanRequest) -> None:
        metastore.plan(request)

    return _State(label, commit, functools.partial(plan, pruned), functools.partial(plan, incremental))
