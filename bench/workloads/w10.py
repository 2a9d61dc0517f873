"""W10: planning with up to a million live files, in one process with the use cases, on a real Postgres.

What is measured is the metastore's work until the last chunk is there; the network adds the chunks' bytes.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator

import pyarrow as pa

from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.format.commit import Change, CommitRequest
from lakelog.format.files import DataFile
from lakelog.format.keys import encode_key, encode_partition
from lakelog.format.plan import AtSnapshot, InRange, PlanRequest
from lakelog.format.predicate import Comparison, Operator
from lakelog.format.snapshot import SnapshotKind
from lakelog.format.table import TableName
from metastore.entries import read_entries
from metastore.postgres import PostgresStore, migrate
from metastore.service import MetastoreService

TITLE = "planning with 10^3 to 10^6 live files: full, pruned, incremental, time travel"
_SCHEMA = pa.schema([("day", pa.int32()), ("id", pa.int64()), ("v", pa.string())])
_FILES_PER_DAY = 1000
"""A partition is as large in a large table as in a small one."""
_FILES_PER_COMMIT = 2000
_RUNS = 9
_FULL_TARGETS_MS = {100_000: 40.0, 1_000_000: 400.0}


def run(bench: Bench) -> Iterator[Figure]:
    """All figures of W10; a quick run ends at 10^5 files."""
    sizes = (1000, 10_000, 100_000) if bench.quick else (1000, 10_000, 100_000, 1_000_000)
    with EmbeddedPostgres(bench.folder / "postgres") as postgres:
        migrate(postgres.database_url)
        with asyncio.Runner() as runner:
            store = PostgresStore(postgres.database_url)
            service = MetastoreService(store, "file:///bench")
            runner.run(service.create_database("bench"))
            for size in sizes:
                yield from runner.run(_measure(service, size))
            runner.run(service.close())
            runner.run(store.close())


async def _measure(service: MetastoreService, size: int) -> list[Figure]:
    table, snapshots = await _fill(service, size)
    day = encode_partition([pa.scalar(0, pa.int32())])
    in_a_day = min(_FILES_PER_DAY, size)
    half = max(1, snapshots // 2)
    cases: list[tuple[str, PlanRequest, int | None, float | None]] = [
        ("one partition", PlanRequest(table, partitions=(day,)), in_a_day, 5.0),
        (
            "partition by predicate, one bucket",
            PlanRequest(table, predicate=Comparison(1, Operator.IN, (day,)), buckets=(3,)),
            None,
            5.0,
        ),
        ("incremental, the last snapshot", PlanRequest(table, at=InRange(snapshots - 1, snapshots)), None, 5.0),
        ("time travel, half way", PlanRequest(table, at=AtSnapshot(half)), min(size, half * _FILES_PER_COMMIT), None),
        ("full", PlanRequest(table), size, _FULL_TARGETS_MS.get(size)),
    ]
    figures = []
    for name, request, expected, target in cases:
        await _check(service, request, expected, name)
        taken = [await _timed_ms(service, request) for _ in range(_RUNS + 2)][2:]
        figures.append(absolute(f"{size:,} files: {name}", "ms", taken, target=target))
    return figures


async def _fill(service: MetastoreService, size: int) -> tuple[str, int]:
    info, _ = await service.create_table(
        TableName("bench", f"t{size}"),
        _SCHEMA,
        primary_key=["day", "id"],
        partition_by=["day"],
        options={"bucket": "16"},
    )
    done = snapshots = 0
    while done < size:
        attempt = (await service.stage_attempt([info.table_uuid], "w")).attempt_id
        count = min(_FILES_PER_COMMIT, size - done)
        files = tuple(_file(attempt, done + k) for k in range(count))
        change = Change(info.table_uuid, SnapshotKind.APPEND, 0, 16, files)
        await service.commit(CommitRequest("w", snapshots, (change,), attempt))
        done += count
        snapshots += 1
        while await service.packer.step():
            pass
    return info.table_uuid, snapshots


def _file(attempt: str, number: int) -> DataFile:
    return DataFile(
        path=f"data/{attempt}/{uuid.uuid4().hex}.parquet",
        partition=encode_partition([pa.scalar(number // _FILES_PER_DAY, pa.int32())]),
        bucket=number % 16,
        level=0,
        row_count=1000,
        delete_count=0,
        size_bytes=100_000,
        min_key=encode_key([pa.scalar(number * 10)]),
        max_key=encode_key([pa.scalar(number * 10 + 9)]),
        schema_id=0,
    )


async def _check(service: MetastoreService, request: PlanRequest, expected: int | None, name: str) -> None:
    plan = await service.plan(request)
    found, without = 0, 0
    async for chunk in plan.chunks:
        found += read_entries(chunk.entries).num_rows
        without += len(chunk.without_file_ids)
    if expected is not None and found - without != expected:
        raise WrongAnswerError(f"{name}: {found - without} files, not {expected}")


async def _timed_ms(service: MetastoreService, request: PlanRequest) -> float:
    begin = time.perf_counter()
    plan = await service.plan(request)
    async for _ in plan.chunks:
        pass
    return (time.perf_counter() - begin) * 1000
