"""W9: commits per second through a real metastore process on a real Postgres, held against an empty gRPC echo."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pyarrow as pa

import lakelog
from bench import shapes
from bench.context import Bench
from bench.echo_server import METHOD
from bench.measure import Figure, WrongAnswerError, absolute, ratio_of_rates
from bench.spark.small_commit_phases import measure_phases
from bench.spark.small_commits import measure_small_commits
from lakelog.embedded.ports import free_port
from lakelog.rpc.v1 import snapshots_pb2, types_pb2
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.testing import embedded_stack

TITLE = "commits per second: 1, 8, 32 writers, one and 64 tables, metadata only and with files, pipelined; from Spark"
_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
_ROUNDS_WARM_UP = 100


def _measure_commits(bench: Bench) -> Iterator[Figure]:
    """Commits over gRPC, with and without files."""
    with (
        embedded_stack(bench.folder / "stack", services=["metastore"]) as stack,
        _echo() as echo,
        lakelog.connect(stack.target) as catalog,
    ):
        catalog.create_database("bench")
        tables = [catalog.create_table(f"bench.t{i}", _SCHEMA).uuid for i in range(64)]
        commits = bench.scaled(8000)
        for writers, spread in ((1, 1), (8, 1), (32, 1), (32, 64)):
            yield _against_echo(bench, stack.target, echo, tables[:spread], writers, commits)
        yield from _latency(stack.target, tables[0], bench.scaled(3000))
        yield _pipelined(bench, stack.target, tables[0], bench.scaled(20_000))
        yield from _with_files(bench, stack.target, catalog)


@contextlib.contextmanager
def _echo() -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "bench.echo_server", str(port)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _request(table: str, writer: str, identifier: int) -> snapshots_pb2.CommitRequest:
    change = snapshots_pb2.Change(
        table_uuid=table, kind=types_pb2.SNAPSHOT_KIND_APPEND, bucket_count=-1, allow_empty=True
    )
    return snapshots_pb2.CommitRequest(writer=writer, identifier=identifier, changes=[change])


async def _drive(target: str, method: str, writers: int, calls: int, make: Callable[[int, int], bytes]) -> float:
    """Calls per second of some writers, each with one call in flight, on as many channels as writers up to 4."""
    channels = [
        grpc.aio.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)])
        for _ in range(min(4, writers))
    ]
    stubs: list[Any] = [channel.unary_unary(method) for channel in channels]

    async def write(number: int, count: int, start: int) -> None:
        call = stubs[number % len(stubs)]
        for i in range(start, start + count):
            await call(make(number, i))

    each = max(1, calls // writers)
    await asyncio.gather(*(write(w, max(1, _ROUNDS_WARM_UP // writers), 0) for w in range(writers)))
    begin = time.perf_counter()
    await asyncio.gather(*(write(w, each, 1_000_000) for w in range(writers)))
    rate = each * writers / (time.perf_counter() - begin)
    for channel in channels:
        await channel.close()
    return rate


def _against_echo(bench: Bench, target: str, echo: str, tables: list[str], writers: int, commits: int) -> Figure:
    turn = 0

    def ours() -> float:
        nonlocal turn
        turn += 1
        run_id = f"{writers}-{len(tables)}-{turn}"
        return asyncio.run(
            _drive(
                target,
                "/lakelog.rpc.v1.SnapshotService/Commit",
                writers,
                commits,
                lambda w, i: _request(tables[w % len(tables)], f"{run_id}-{w}", i).SerializeToString(),
            )
        )

    body = _request(tables[0], "echo", 1).SerializeToString()

    def reference() -> float:
        return asyncio.run(_drive(echo, METHOD, writers, commits, lambda _w, _i: body))

    name = f"{writers} writer{'s' * (writers > 1)}, {len(tables)} table{'s' * (len(tables) > 1)}, metadata only"
    target_ratio = 0.6 if (writers, len(tables)) == (32, 1) else None
    return ratio_of_rates(name, "commits/s", ours, reference, pairs=bench.pairs, target=target_ratio)


def _latency(target: str, table: str, commits: int) -> Iterator[Figure]:
    taken: list[float] = []
    with grpc.insecure_channel(target) as channel:
        call: Any = channel.unary_unary("/lakelog.rpc.v1.SnapshotService/Commit")
        for i in range(commits + _ROUNDS_WARM_UP):
            body = _request(table, "latency", i).SerializeToString()
            begin = time.perf_counter()
            call(body)
            taken.append((time.perf_counter() - begin) * 1000)
    taken = taken[_ROUNDS_WARM_UP:]
    yield absolute("one writer, p50", "ms", [statistics.median(taken)], target=2.0)
    yield absolute("one writer, p99", "ms", [float(np.percentile(taken, 99))])


def _pipelined(bench: Bench, target: str, table: str, commits: int) -> Figure:
    async def once(run_id: str) -> float:
        async with grpc.aio.insecure_channel(target) as channel:
            stream: Any = channel.stream_stream("/lakelog.rpc.v1.SnapshotService/CommitStream")
            gate = asyncio.Semaphore(256)

            async def requests() -> AsyncIterator[bytes]:
                for i in range(commits):
                    await gate.acquire()
                    yield snapshots_pb2.CommitStreamRequest(commit=_request(table, run_id, i)).SerializeToString()

            begin = time.perf_counter()
            answered = 0
            async for answer in stream(requests()):
                gate.release()
                outcome = snapshots_pb2.CommitStreamResponse.FromString(answer)
                if outcome.WhichOneof("outcome") != "committed":
                    raise WrongAnswerError(f"a pipelined commit failed: {outcome.failed.message}")
                answered += 1
            if answered != commits:
                raise WrongAnswerError(f"{answered} answers to {commits} commits")
            return commits / (time.perf_counter() - begin)

    rates = [asyncio.run(once(f"pipe-{turn}")) for turn in range(bench.pairs + 1)][1:]
    return absolute("one writer, pipelined", "commits/s", rates, target=3000, at_most=False)


def _with_files(bench: Bench, target: str, catalog: Catalog) -> Iterator[Figure]:
    """Whole appends of the SDK: 100 and 1000 rows as a file, staged, written durably and committed."""
    for rows, writers, goal in ((100, 1, 250.0), (100, 4, 500.0), (1000, 1, None), (1000, 8, None)):
        name = f"bench.files_{rows}_{writers}"
        table = catalog.create_table(name, shapes.q1_schema())
        data = shapes.q1(np.arange(rows), seed=rows)
        each = bench.scaled(1000) // writers
        clients = [lakelog.connect(target).table(name) for _ in range(writers)]

        def write(client: Table, count: int = each, data: pa.Table = data) -> None:
            for _ in range(count):
                client.append(data)

        write(clients[0], 20)
        begin = time.perf_counter()
        with ThreadPoolExecutor(writers) as pool:
            list(pool.map(write, clients))
        rate = each * writers / (time.perf_counter() - begin)
        found = table.scan().count()
        if found != (each * writers + 20) * rows:
            raise WrongAnswerError(f"{name} has {found} rows")
        writers_text = f"{writers} writer{'s' * (writers > 1)}"
        yield absolute(f"SDK appends of {rows} rows, {writers_text}", "commits/s", [rate], target=goal, at_most=False)


PARTS = {"grpc": _measure_commits, "spark": measure_small_commits, "phases": measure_phases}
