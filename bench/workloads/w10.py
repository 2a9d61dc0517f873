"""W10: planning with up to a million live files, in one process with the use cases, on a real Postgres.

What is measured is the metastore's work until the last part of a plan could be sent; the network adds the parts' bytes.
The reference is the SQL alone: one prepared statement that selects the same files from the rows, until its result is in
the client library's memory, nothing of it looked at.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.context import Bench
from bench.latency import measure_latencies
from bench.measure import Figure, WrongAnswerError
from bench.plans import (
    BUCKETS,
    DATABASE,
    FILES_PER_COMMIT,
    FILES_PER_DAY,
    create_planned_table,
    encode_day,
    plan_file_ids,
    send_plan,
)
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.format.tables.plan import AtSnapshot, InRange, PlanRequest
from lakelog.format.tables.predicate import Comparison, Operator
from metastore.postgres import PostgresStore, migrate
from metastore.postgres.commits.snapshots import files_query
from metastore.postgres.connection.connections import Connection, connect
from metastore.store.records import FileQuery
from metastore.store.transaction import run_transaction
from metastore.use_cases import UseCases

TITLE = "planning with 10^3 to 10^6 live files: full, pruned, incremental, time travel"
_SMALL_COMMIT = 16
"""Files of a commit as they come in when a table is written to steadily: one for each bucket."""
_NARROW_TARGET_MS = 5.0
_FULL_TARGETS_MS = {100_000: 40.0, 1_000_000: 400.0}
_CALLS = 9
_FEW_CALLS = 1
_MANY_ENTRIES = 20_000


@dataclass(frozen=True)
class _Case:
    """A plan, the query that selects the same files, and how many they must be."""

    name: str
    request: PlanRequest
    query: FileQuery
    entries: int
    target_ms: float | None = None


def run(bench: Bench) -> Iterator[Figure]:
    """All figures of W10; a quick run ends at 10^5 files."""
    sizes = (1000, 10_000, 100_000) if bench.quick else (1000, 10_000, 100_000, 1_000_000)
    with EmbeddedPostgres(bench.folder / "postgres") as postgres:
        migrate(postgres.database_url)
        with asyncio.Runner() as runner:
            store = PostgresStore(postgres.database_url)
            use_cases = UseCases(store, "file:///bench")
            runner.run(use_cases.catalog.create_database(DATABASE))
            connection = runner.run(connect(postgres.database_url))
            for size in sizes:
                for case in runner.run(_prepare(store, use_cases, size)):
                    yield runner.run(_measure(use_cases, connection, size, case, bench.pairs))
            runner.run(connection.close())
            runner.run(use_cases.close())
            runner.run(store.close())


async def _prepare(store: PostgresStore, use_cases: UseCases, size: int) -> list[_Case]:
    table = await create_planned_table(use_cases, f"t{size}")
    await table.fill(size)
    bulk = table.snapshots
    await table.add_files(_SMALL_COMMIT)
    uuid, last, half = table.table_uuid, table.snapshots, max(1, bulk // 2)
    table_id = (await run_transaction(store, lambda tx: tx.find_heads([uuid])))[uuid].table_id
    query = functools.partial(_query, table_id)
    day = encode_day(0)
    in_a_day = min(FILES_PER_DAY, size)
    of_a_bucket = len(range(3, in_a_day, BUCKETS))
    predicate = Comparison(1, Operator.IN, (day,))
    return [
        _Case(
            "one partition",
            PlanRequest(uuid, partitions=(day,)),
            query(live_at=last, partitions=frozenset([day])),
            in_a_day,
            _NARROW_TARGET_MS,
        ),
        _Case(
            "partition by predicate, one bucket",
            PlanRequest(uuid, predicate=predicate, buckets=(3,)),
            query(live_at=last, partitions=frozenset([day]), buckets=frozenset([3])),
            of_a_bucket,
            _NARROW_TARGET_MS,
        ),
        _Case(
            "incremental, a small commit",
            PlanRequest(uuid, at=InRange(bulk, last)),
            query(added_after=bulk, added_until=last),
            _SMALL_COMMIT,
            _NARROW_TARGET_MS,
        ),
        _Case(
            "incremental, a bulk commit",
            PlanRequest(uuid, at=InRange(bulk - 1, bulk)),
            query(added_after=bulk - 1, added_until=bulk),
            min(FILES_PER_COMMIT, size),
            _NARROW_TARGET_MS,
        ),
        _Case(
            "time travel, half way",
            PlanRequest(uuid, at=AtSnapshot(half)),
            query(live_at=half),
            min(size, half * FILES_PER_COMMIT),
        ),
        _Case("full", PlanRequest(uuid), query(live_at=last), size + _SMALL_COMMIT, _FULL_TARGETS_MS.get(size)),
    ]


def _query(
    table_id: int,
    *,
    live_at: int | None = None,
    added_after: int = 0,
    added_until: int | None = None,
    partitions: frozenset[bytes] | None = None,
    buckets: frozenset[int] | None = None,
) -> FileQuery:
    return FileQuery(
        table_id=table_id,
        live_at=live_at,
        added_after=added_after,
        added_until=added_until,
        partitions=partitions,
        buckets=buckets,
    )


async def _measure(use_cases: UseCases, connection: Connection, size: int, case: _Case, turns: int) -> Figure:
    name = f"{size:,} files: {case.name} ({case.entries:,} entries)"
    sql, parameters = files_query(case.query)
    found = await plan_file_ids(use_cases, case.request)
    rows = await connection.execute(f"SELECT q.file_id FROM ({sql}) q".encode(), parameters)
    expected = np.sort(np.array([row[0] for row in await rows.fetchall()], np.int64))
    if len(found) != case.entries or not np.array_equal(found, expected):
        raise WrongAnswerError(f"{name}: {len(found)} files; {len(expected)} by SQL")

    async def reference() -> None:
        async with connection.cursor(binary=True) as cursor:
            await cursor.execute(sql.encode(), parameters)

    calls = _FEW_CALLS if case.entries > _MANY_ENTRIES else _CALLS
    latencies = await measure_latencies(
        [functools.partial(send_plan, use_cases, case.request), reference], turns=turns, calls=calls
    )
    return latencies.against(name, 0, 1, at_most_ms=case.target_ms)
