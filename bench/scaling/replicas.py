"""The curves: the same work for 1, 2 and 4 replicas of a service. The machine's cores are shared by all processes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import numpy as np
import psutil
import pyarrow as pa

import lakelog
from bench.context import Bench
from bench.expected import check_equal
from bench.measure import Figure, WrongAnswerError
from bench.scaling.meter import REPLICAS, Used, measure, show
from bench.shapes import q1, q1_schema
from lakelog.embedded.ports import free_port
from lakelog.embedded.processes import ManagedProcess
from lakelog.embedded.services import is_serving, service_command, service_environment
from lakelog.rpc.v1 import snapshots_pb2, types_pb2
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.testing import EmbeddedStack, embedded_stack

TABLES: Final = 8
SUBSCRIPTIONS: Final = 8
WRITERS: Final = 32
BATCH_ROWS: Final = 20_000
WITHIN_S: Final = 240.0

_COMMIT: Final = "/lakelog.rpc.v1.SnapshotService/Commit"
_SCHEMA: Final = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])


def measure_metastore(bench: Bench) -> Iterator[Figure]:
    """Commits without files of 32 writers to 64 tables, spread over all metastores."""
    commits = bench.scaled(8000)
    with embedded_stack(bench.folder / "metastore") as stack:
        with lakelog.connect(stack.target) as catalog:
            catalog.create_database("b")
            tables = [catalog.create_table(f"b.t{number}", _SCHEMA).uuid for number in range(2 * WRITERS)]
        stack.kill("metastore")
        others = _children()
        for replicas in REPLICAS:
            targets = [f"127.0.0.1:{free_port()}" for _ in range(replicas)]
            arguments = [
                ["serve", "--warehouse", stack.warehouse, "--listen", each, "--insecure-dev"] for each in targets
            ]
            environment = {"LAKELOG_DATABASE_URL": stack.database_url}
            with contextlib.ExitStack() as running:
                processes = [
                    running.enter_context(_running(stack, "metastore", words, environment, target))
                    for words, target in zip(arguments, targets, strict=True)
                ]
                _run_commits(targets, tables, f"warm-{replicas}", commits // 10)
                used = measure(
                    {"metastore": [each.pid for each in processes], "Postgres": others},
                    partial(_run_commits, targets, tables, f"run-{replicas}", commits),
                )
            yield from show("metastore", replicas, "commits", commits // WRITERS * WRITERS, used)


def _run_commits(targets: Sequence[str], tables: Sequence[str], run: str, commits: int) -> None:
    asyncio.run(_commit(targets, tables, run, commits))


async def _commit(targets: Sequence[str], tables: Sequence[str], run: str, commits: int) -> None:
    channels = [grpc.aio.insecure_channel(target) for target in targets]
    stubs: list[Any] = [channel.unary_unary(_COMMIT) for channel in channels]

    async def write(number: int) -> None:
        for identifier in range(commits // WRITERS):
            change = snapshots_pb2.Change(
                table_uuid=tables[(number + identifier * WRITERS) % len(tables)],
                kind=types_pb2.SNAPSHOT_KIND_APPEND,
                bucket_count=-1,
                allow_empty=True,
            )
            request = snapshots_pb2.CommitRequest(writer=f"{run}-{number}", identifier=identifier, changes=[change])
            await stubs[number % len(stubs)](request.SerializeToString())

    await asyncio.gather(*(write(number) for number in range(WRITERS)))
    for channel in channels:
        await channel.close()


def measure_publisher(bench: Bench) -> Iterator[Figure]:
    """A backlog of eight tables, from the moment on when every publisher has a table."""
    commits = bench.scaled(20)
    with (
        embedded_stack(bench.folder / "publisher", kafka=True) as stack,
        lakelog.connect(stack.target) as catalog,
    ):
        others = _children()
        catalog.create_database("b")
        for replicas in REPLICAS:
            tables = _fill(catalog, f"p{replicas}", commits, {"log.system": "kafka"})
            with contextlib.ExitStack() as running:
                processes = [
                    running.enter_context(_running(stack, "writer", ["publish"], _target(stack), name=f"publisher-{n}"))
                    for n in range(replicas)
                ]
                _wait_for(partial(_do_all_publish, catalog, tables, replicas))
                done = _count_published(catalog, tables)
                used = measure(
                    {
                        "publisher": [each.pid for each in processes],
                        "Postgres, Kafka and metastore": others,
                    },
                    partial(_wait_for, partial(_are_published, catalog, tables, commits * TABLES), 0.05),
                )
            rows = (commits * TABLES - done) * BATCH_ROWS
            yield from show("publisher", replicas, "million rows", rows / 1e6, used)


def measure_compactor(bench: Bench) -> Iterator[Figure]:
    """Full compactions of eight keyed tables of two buckets."""
    commits = bench.scaled(10)
    with embedded_stack(bench.folder / "compactor") as stack, lakelog.connect(stack.target) as catalog:
        others = _children()
        catalog.create_database("b")
        for replicas in REPLICAS:
            tables = _fill(catalog, f"c{replicas}", commits, {"bucket": "2", "write-only": "true"}, key=True)
            with contextlib.ExitStack() as running:
                processes = [
                    running.enter_context(_running(stack, "compactor", ["run"], _target(stack), name=f"compactor-{n}"))
                    for n in range(replicas)
                ]
                # Each has done a job before the clock starts.
                _compact(_fill(catalog, f"w{replicas}", 2, {"bucket": "2", "write-only": "true"}, key=True))
                used = measure(
                    {"compactor": [each.pid for each in processes], "Postgres and metastore": others},
                    partial(_compact, tables),
                )
            for table in tables:
                check_equal(f"rows of {table.name}", table.scan().count(), commits * BATCH_ROWS)
            yield from show("compactor", replicas, "million rows", commits * TABLES * BATCH_ROWS / 1e6, used)


def measure_reader(bench: Bench) -> Iterator[Figure]:
    """Eight subscriptions that read a whole table each."""
    commits = bench.scaled(20)
    with embedded_stack(bench.folder / "reader") as stack, lakelog.connect(stack.target) as catalog:
        others = _children()
        catalog.create_database("b")
        tables = _fill(catalog, "r", commits, {})
        for replicas in REPLICAS:
            targets = [f"127.0.0.1:{free_port()}" for _ in range(replicas)]
            with contextlib.ExitStack() as running:
                processes = [
                    running.enter_context(
                        _running(stack, "reader", ["serve", "--listen", each, "--insecure-dev"], _target(stack), each)
                    )
                    for each in targets
                ]
                catalogs = [
                    running.enter_context(lakelog.connect(stack.target, reader=targets[number % replicas]))
                    for number in range(SUBSCRIPTIONS)
                ]
                used = measure(
                    {"reader": [each.pid for each in processes], "Postgres and metastore": others},
                    partial(_receive, catalogs, tables, commits * BATCH_ROWS),
                )
            yield from show("reader", replicas, "million rows", commits * TABLES * BATCH_ROWS / 1e6, used)


def measure_writer(bench: Bench) -> Iterator[Figure]:
    """Pipelines with a Spark each that read the same amount of CSV together, with the start of Spark."""
    rows = bench.scaled(2_000_000)
    folder = bench.folder / "writer"
    with embedded_stack(folder) as stack, lakelog.connect(stack.target) as catalog:
        others = _children()
        catalog.create_database("b")
        for replicas in REPLICAS:
            tables = [catalog.create_table(f"b.w{replicas}_{number}", _SCHEMA) for number in range(replicas)]
            files = [_write_pipeline(folder, table, rows // replicas) for table in tables]
            with contextlib.ExitStack() as running:
                pipelines = [_make_pipeline(stack, file) for file in files]
                for pipeline in pipelines:
                    running.callback(pipeline.kill)
                used = _ingest(pipelines, tables, rows // replicas, others)
            yield from show("writer", replicas, "million rows", rows // replicas * replicas / 1e6, used)


def _ingest(pipelines: Sequence[ManagedProcess], tables: Sequence[Table], rows: int, others: Sequence[int]) -> Used:
    """Starts the pipelines, and waits until each table has so many rows."""
    pids: list[int | None] = []

    def ingest() -> None:
        for pipeline in pipelines:
            pipeline.start()
        pids.extend(pipeline.pid for pipeline in pipelines)
        _wait_for(lambda: all(table.scan().count() == rows for table in tables), 0.5)

    # The processes are new, so that all of their CPU time counts.
    return measure({"writer": pids, "Postgres and metastore": others}, ingest)


def _write_pipeline(folder: Path, table: Table, rows: int) -> Path:
    name = table.name.replace(".", "-")
    source = folder / f"in-{name}"
    source.mkdir()
    numbers = np.arange(rows)
    with (source / "rows.csv").open("w") as file:
        file.write("k,v\n")
        np.savetxt(file, np.column_stack((numbers, numbers)), fmt="%d", delimiter=",")
    path = folder / f"{name}.yaml"
    path.write_text(
        f"name: {name}\ntable: {table.name}\nmode: append\nsource: {{type: files, path: ./in-{name}, format: csv}}\n"
        f"trigger: {{interval: 100 ms}}\ncheckpoint: ./state-{name}\n"
    )
    return path


def _fill(catalog: Catalog, name: str, commits: int, options: dict[str, str], *, key: bool = False) -> list[Table]:
    tables = [
        catalog.create_table(f"b.{name}_{number}", q1_schema(), primary_key=["id"] if key else [], options=options)
        for number in range(TABLES)
    ]

    def write(table: Table) -> None:
        for commit in range(commits):
            rows = q1(np.arange(BATCH_ROWS) + commit * BATCH_ROWS, commit)
            if key:
                table.upsert(rows)
            else:
                table.append(rows)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, tables))
    return tables


def _compact(tables: Sequence[Table]) -> None:
    with ThreadPoolExecutor(TABLES) as threads:
        list(threads.map(lambda table: table.compact(full=True, timeout=WITHIN_S), tables))


def _receive(catalogs: Sequence[Catalog], tables: Sequence[Table], rows: int) -> None:
    def receive(number: int) -> int:
        found = 0
        with catalogs[number].table(tables[number].name).subscribe("latest-full") as stream:
            for batch in stream:
                found += batch.data.num_rows
                if found >= rows:
                    break
        return found

    with ThreadPoolExecutor(SUBSCRIPTIONS) as threads:
        for table, found in zip(tables, threads.map(receive, range(SUBSCRIPTIONS)), strict=True):
            check_equal(f"rows of {table.name}", found, rows)


def _count_published(catalog: Catalog, tables: Sequence[Table]) -> int:
    return sum(catalog.metastore.get_publish_state(table.uuid).snapshot_id for table in tables)


def _do_all_publish(catalog: Catalog, tables: Sequence[Table], replicas: int) -> bool:
    """Whether each publisher has a table, so that none is still starting."""
    states = [catalog.metastore.get_publish_state(table.uuid) for table in tables]
    return len({state.holder for state in states} - {""}) >= replicas and any(state.snapshot_id for state in states)


def _are_published(catalog: Catalog, tables: Sequence[Table], snapshots: int) -> bool:
    return _count_published(catalog, tables) >= snapshots


def _wait_for(holds: Callable[[], bool], every_s: float = 0.02) -> None:
    give_up_s = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > give_up_s:
            raise WrongAnswerError(f"the work was not done in {WITHIN_S:g} s")
        time.sleep(every_s)


def _target(stack: EmbeddedStack) -> dict[str, str]:
    return {"LAKELOG_TARGET": stack.target}


@contextlib.contextmanager
def _running(
    stack: EmbeddedStack,
    service: str,
    arguments: Sequence[str],
    environment: dict[str, str],
    target: str = "",
    *,
    name: str = "",
) -> Iterator[ManagedProcess]:
    process = _make(stack, service, arguments, environment, target, name)
    process.start()
    try:
        yield process
    finally:
        process.kill()


def _make_pipeline(stack: EmbeddedStack, file: Path) -> ManagedProcess:
    return _make(stack, "writer", ["run", str(file)], _target(stack), "", f"writer-{file.stem}")


def _make(
    stack: EmbeddedStack, service: str, arguments: Sequence[str], environment: dict[str, str], target: str, name: str
) -> ManagedProcess:
    return ManagedProcess(
        name or f"{service}-{target}",
        service_command(service, arguments),
        log=Path(stack.folder) / "logs" / f"{name or service}-scaled.log",
        environment=service_environment(service, environment),
        working_directory=Path(stack.folder),
        is_ready=(lambda: is_serving(target)) if target else None,
    )


def _children() -> list[int]:
    """The stack's own processes, if no replicas run yet."""
    return [child.pid for child in psutil.Process().children()]
