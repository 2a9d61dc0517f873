"""What a table, a commit and a file cost: bytes and CPU of Postgres, CPU and memory of a metastore, requests of stores.

Costs are differences: the same state before and after so many more tables, commits or files.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import psutil
import psycopg
import pyarrow as pa

import lakelog
from bench.context import Bench
from bench.expected import check_equal
from bench.measure import Figure, absolute
from bench.scaling.meter import Used, measure
from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import SystemClock
from lakelog.embedded.services import service_module
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.keys.encoding import encode_key
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.local import LocalStore
from lakelog.storage.objects.store import ObjectStore
from lakelog.testing import embedded_stack
from metastore.memory import MemoryStore
from metastore.postgres.connection.connections import libpq_url
from metastore.testing import in_process
from metastore.use_cases import UseCases

FILES_PER_COMMIT: Final = 2000
_PACKED_S: Final = 4.0
_SCHEMA: Final = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64()), ("s", pa.string())])
_SIZES: Final = """
SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""
_STAYS: Final = "SELECT pg_total_relation_size('commit_result') + pg_total_relation_size('attempt')"


def measure_costs(bench: Bench) -> Iterator[Figure]:
    """All of them."""
    with (
        embedded_stack(bench.folder / "costs") as stack,
        lakelog.connect(stack.target) as catalog,
        psycopg.connect(libpq_url(stack.database_url), autocommit=True) as database,
    ):
        groups = _find_groups()
        catalog.create_database("b")

        def size() -> int:
            # What is packed is a part of it.
            time.sleep(_PACKED_S)
            database.execute("VACUUM")
            row = database.execute(_SIZES).fetchone()
            assert row is not None
            return int(row[0])

        tables = bench.scaled(1000)
        begun = size()
        used = measure(groups, lambda: _make_tables(catalog, tables))
        yield from _of("a table", "table", tables, used, size() - begun)

        files, begun = bench.scaled(100_000), size()
        used = measure(groups, lambda: _add_files(catalog.metastore, catalog.table("b.t0").uuid, files))
        per_file = (size() - begun) / files
        yield from _of("a file of a large commit", "file", files, used, size() - begun)
        # A new process: one that has done something has memory to spare.
        stack.restart("metastore")
        groups = _find_groups()
        yield from _plan(catalog, files, groups["metastore"][0])

        commits, begun, stay = bench.scaled(2000), size(), _count_stays(database)
        used = measure(groups, lambda: _append(catalog, min(64, tables), commits))
        yield from _of(
            "a commit of one file, without the file", "commit", commits, used, size() - begun - per_file * commits
        )
        stays = (_count_stays(database) - stay) / commits
        yield absolute("a commit: Postgres, for ever", "bytes a commit", [stays])
        row = database.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'").fetchone()
        assert row is not None
        yield absolute("connections of a metastore after it", "connections", [row[0] - 1])
    yield from _count_requests(bench)


def _count_stays(database: psycopg.Connection[Any]) -> int:
    """The size of what is never deleted: the results by which a repeated commit is known, and committed attempts."""
    row = database.execute(_STAYS).fetchone()
    assert row is not None
    return int(row[0])


def _of(what: str, unit: str, count: int, used: Used, size_bytes: float) -> Iterator[Figure]:
    yield absolute(f"{what}: Postgres", f"bytes a {unit}", [size_bytes / count])
    for group in ("Postgres", "metastore"):
        yield absolute(f"{what}: CPU of {group}", f"ms a {unit}", [1000 * used.cpu_s[group] / count])


def _find_groups() -> dict[str, list[int]]:
    module = service_module("metastore")
    found: dict[str, list[int]] = {"metastore": [], "Postgres": []}
    for child in psutil.Process().children():
        found["metastore" if module in child.cmdline() else "Postgres"].append(child.pid)
    check_equal(
        "processes of the stack", {name: len(pids) for name, pids in found.items()}, {"metastore": 1, "Postgres": 1}
    )
    return found


def _make_tables(catalog: Catalog, count: int) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: catalog.create_table(f"b.t{number}", _SCHEMA), range(count)))


def _add_files(metastore: Metastore, table_uuid: str, count: int) -> None:
    """Of a table without buckets, as a writer with many files commits them."""
    for first in range(0, count, FILES_PER_COMMIT):
        attempt = metastore.stage_attempt([table_uuid], "files").attempt_id
        files = tuple(_file(attempt, first + number) for number in range(FILES_PER_COMMIT))
        change = Change(table_uuid, SnapshotKind.APPEND, 0, -1, files)
        metastore.commit(CommitRequest("files", first // FILES_PER_COMMIT, (change,), attempt))


def _file(attempt: str, number: int) -> DataFile:
    return DataFile(
        path=f"data/{attempt}/{uuid.uuid4().hex}.parquet",
        partition=b"",
        bucket=0,
        level=0,
        row_count=1000,
        delete_count=0,
        size_bytes=100_000,
        min_key=encode_key([pa.scalar(number * 10)]),
        max_key=encode_key([pa.scalar(number * 10 + 9)]),
        schema_id=0,
    )


def _plan(catalog: Catalog, files: int, metastore: int) -> Iterator[Figure]:
    """What a plan of all files takes in the metastore's memory, over what a new one has."""
    process = psutil.Process(metastore)
    before, peak, stop = process.memory_info().rss, 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not stop.wait(0.005):
            peak = max(peak, process.memory_info().rss)

    thread = threading.Thread(target=watch)
    thread.start()
    found: list[int] = []
    used = measure(
        {"metastore": [metastore]},
        lambda: found.append(catalog.metastore.plan(PlanRequest(catalog.table("b.t0").uuid)).files.num_rows),
    )
    stop.set()
    thread.join()
    check_equal("files of the plan", found, [files])
    yield absolute("a file of a plan: memory of the metastore", "bytes a file", [max(peak - before, 0) / files])
    yield absolute("a file of a plan: CPU of the metastore", "ms a file", [1000 * used.cpu_s["metastore"] / files])
    yield absolute("a metastore before that: memory", "MiB", [before / 2**20])


def _append(catalog: Catalog, tables: int, commits: int) -> None:
    row = pa.table({"k": [1], "v": [1], "s": ["a"]}, schema=_SCHEMA)

    def append(number: int) -> None:
        table = catalog.table(f"b.t{1 + number % (tables - 1)}")
        for _ in range(commits // 4):
            table.append(row)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(append, range(4)))


class _CountingStores:
    """Local files, with a count of the calls that are requests on S3."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def open(self, location: str) -> ObjectStore:
        calls = self.calls

        class Counting(LocalStore):
            def open_input(self, path: str) -> pa.NativeFile:
                calls["files opened"] += 1
                return super().open_input(path)

            def create(self, path: str) -> Any:
                calls["PUT"] += 1
                return super().create(path)

        return Counting(unquote(location.removeprefix("file://")))


def _count_requests(bench: Bench) -> Iterator[Figure]:
    """Of an append, and of a scan of its file."""
    stores = _CountingStores()

    async def open_store() -> MemoryStore:
        return MemoryStore(SystemClock())

    metastore = in_process(open_store, lambda store: UseCases(store, f"file://{bench.folder}/requests/"))
    try:
        catalog = Catalog(metastore, stores)
        catalog.create_database("b")
        table = catalog.create_table("b.t", _SCHEMA)
        commits = 20
        for _ in range(commits):
            values = np.arange(100_000)
            table.append(pa.table({"k": values, "v": values, "s": values.astype(str)}, schema=_SCHEMA))
        yield absolute("a file of a write: requests", "PUT a file", [stores.calls["PUT"] / commits])
        check_equal("rows read", table.scan().to_arrow().num_rows, commits * 100_000)
        opened = stores.calls["files opened"]
        yield absolute("a file of a scan: files opened", "opened a file", [opened / commits])
    finally:
        metastore.close()
