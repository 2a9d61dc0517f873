"""The gate and the planner in this process, without the network: what a commit and a plan cost the metastore itself.

    python bench/metastore_gate.py postgresql://... [commits] [plans]

Makes a database of its own and drops it at the end.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
import uuid
from collections.abc import Awaitable
from functools import cache

import psycopg
import pyarrow as pa

from lakelog.format.commit import Change, CommitRequest
from lakelog.format.files import DataFile
from lakelog.format.keys import encode_partition
from lakelog.format.plan import AtSnapshot, InRange, PlanRequest
from lakelog.format.predicate import Comparison, Operator
from lakelog.format.snapshot import SnapshotKind
from lakelog.format.table import TableInfo, TableName
from metastore.postgres import PostgresStore, migrate
from metastore.service import MetastoreService

SCHEMA = pa.schema([("day", pa.int32()), ("id", pa.int64()), ("v", pa.string())])


@cache
def encoded_day(day: int) -> bytes:
    return encode_partition([pa.scalar(day, pa.int32())])


def encoded_number(number: int) -> bytes:
    # What `encode_key` gives for one bigint, without the making of Arrow scalars: that is a client's work.
    return b"\x01" + (number + 2**63).to_bytes(8, "big")


def data_file(attempt: str, number: int, day: int, bucket: int) -> DataFile:
    return DataFile(
        path=f"data/{attempt}/{uuid.uuid4().hex}.parquet",
        partition=encoded_day(day),
        bucket=bucket,
        level=0,
        row_count=1000,
        delete_count=0,
        size_bytes=100_000,
        min_key=encoded_number(number * 10),
        max_key=encoded_number(number * 10 + 9),
        schema_id=0,
    )


async def make_table(service: MetastoreService, name: str) -> TableInfo:
    table, _ = await service.create_table(
        TableName("bench", name), SCHEMA, primary_key=["day", "id"], partition_by=["day"], options={"bucket": "16"}
    )
    return table


def empty_commit(table: TableInfo, writer: str, identifier: int) -> CommitRequest:
    change = Change(table.table_uuid, SnapshotKind.APPEND, 0, 16, allow_empty=True)
    return CommitRequest(writer, identifier, (change,))


async def timed(work: Awaitable[object]) -> float:
    start = time.perf_counter()
    await work
    return time.perf_counter() - start


def show(name: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    p50, p99 = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
    print(f"{name:<44} p50 {p50 * 1000:8.2f} ms   p99 {p99 * 1000:8.2f} ms   n {len(ordered)}")


async def bench_commits(service: MetastoreService) -> None:
    table = await make_table(service, "commits")
    # Warm: connections, prepared statements.
    for n in range(50):
        await service.commit(empty_commit(table, "warm", n))
    show(
        "one writer, metadata only",
        [await timed(service.commit(empty_commit(table, "one", n))) for n in range(2000)],
    )

    async def with_files(n: int) -> None:
        attempt = await service.stage_attempt([table.table_uuid], "files")
        files = tuple(data_file(attempt, n * 4 + k, 0, k) for k in range(4))
        change = Change(table.table_uuid, SnapshotKind.APPEND, 0, 16, files)
        await service.commit(CommitRequest("files", n, (change,), attempt))

    show("one writer, stage + commit of 4 files", [await timed(with_files(n)) for n in range(1000)])

    latencies: list[float] = []

    async def writer(name: str, count: int) -> None:
        latencies.extend([await timed(service.commit(empty_commit(table, name, n))) for n in range(count)])

    for writers in (8, 32):
        latencies.clear()
        start = time.perf_counter()
        await asyncio.gather(*(writer(f"{writers}-{w}", 8000 // writers) for w in range(writers)))
        rate = 8000 / (time.perf_counter() - start)
        show(f"{writers} writers, one table: {rate:.0f} commits/s", latencies)

    start = time.perf_counter()
    gate = asyncio.Semaphore(256)

    async def pipelined(n: int) -> None:
        async with gate:
            await service.commit(empty_commit(table, "pipe", n))

    await asyncio.gather(*(pipelined(n) for n in range(20_000)))
    print(f"{'one writer, 256 in flight':<44} {20_000 / (time.perf_counter() - start):.0f} commits/s")


async def consume(service: MetastoreService, request: PlanRequest) -> tuple[float, float, int]:
    start = time.perf_counter()
    plan = await service.plan(request)
    header = time.perf_counter() - start
    size = 0
    async for chunk in plan.chunks:
        size += len(chunk.entries)
    return header, time.perf_counter() - start, size


async def bench_plans(service: MetastoreService, total: int) -> None:
    table = await make_table(service, f"plans{total}")
    number, snapshot = 0, 0
    start = time.perf_counter()
    while number < total:
        attempt = await service.stage_attempt([table.table_uuid], "w")
        count = min(total // 50, total - number)
        # A thousand files a day, so that a partition is as large in a large table as in a small one.
        files = tuple(data_file(attempt, number + k, (number + k) // 1000, (number + k) % 16) for k in range(count))
        change = Change(table.table_uuid, SnapshotKind.APPEND, 0, 16, files)
        result = await service.commit(CommitRequest("w", snapshot, (change,), attempt))
        snapshot = result.results[0].snapshot_id or 0
        number += count
        while await service.packer.step():
            pass
    rate = total / (time.perf_counter() - start)
    print(f"--- {total} live files, {snapshot} snapshots; {rate:.0f} files/s committed and packed")
    # Some commits behind what is packed.
    for n in range(100):
        attempt = await service.stage_attempt([table.table_uuid], "tail")
        change = Change(table.table_uuid, SnapshotKind.APPEND, 0, 16, (data_file(attempt, n, 1, 1),))
        result = await service.commit(CommitRequest("tail", n, (change,), attempt))
    latest = result.results[0].snapshot_id or 0
    uuid_ = table.table_uuid
    day = encode_partition([pa.scalar(3, pa.int32())])
    requests = {
        "pruned: one partition": PlanRequest(uuid_, partitions=(day,)),
        "pruned: predicate on partition, bucket": PlanRequest(
            uuid_, predicate=Comparison(1, Operator.IN, (day,)), buckets=(3,)
        ),
        "pruned: key range (1000 files)": PlanRequest(
            uuid_,
            first_key=encoded_number(50_000),
            last_key=encoded_number(59_999),
        ),
        "incremental: last 10 snapshots": PlanRequest(uuid_, at=InRange(latest - 10, latest)),
        "time travel: half way": PlanRequest(uuid_, at=AtSnapshot(snapshot // 2)),
        "full": PlanRequest(uuid_),
    }
    for name, request in requests.items():
        await consume(service, request)
        runs = [await consume(service, request) for _ in range(7)]
        header = statistics.median(run[0] for run in runs)
        whole = statistics.median(run[1] for run in runs)
        print(f"{name:<44} header {header * 1000:7.2f} ms   all {whole * 1000:8.2f} ms   {runs[0][2] / 1e6:7.2f} MB")
    show(
        "commit of one empty change",
        [await timed(service.commit(empty_commit(table, "x", n))) for n in range(500)],
    )


async def main(url: str, only: str) -> None:
    name = f"bench_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    database = psycopg.conninfo.make_conninfo(url, dbname=name)
    try:
        migrate(database)
        store = PostgresStore(database)
        service = MetastoreService(store, "file:///tmp/warehouse")
        await service.create_database("bench")
        if only in ("all", "commits"):
            await bench_commits(service)
        for total in (10_000, 100_000, 1_000_000):
            if only in ("all", "plans", str(total)):
                await bench_plans(service, total)
        await service.close()
        await store.close()
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "all"))
