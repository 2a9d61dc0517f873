"""The SDK's halves of W1, W2 and W3: writing and reading from Arrow, against plain pyarrow on the same rows.

The metastore runs in this process over its store in memory, so that what is measured is the SDK and the files; W9
measures the gate. Files are durable on both sides: the reference synchronises what it wrote as well.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, compare
from bench.shapes import order_free_hash, q1, q1_schema, zipf_ids
from lakelog.catalog import Catalog
from lakelog.clock import SystemClock
from lakelog.storage.parquet_writer import ROW_GROUP_ROWS
from lakelog.storage.stores import LocationStores
from lakelog.table import Table
from metastore.inprocess import InProcessMetastore
from metastore.memory import MemoryStore
from metastore.service import MetastoreService
from metastore.store import Store

BASE_ROWS = 4_000_000
HASHED = ["id", "v0", "ts"]
"""Columns of the order-free hash: enough to find a lost, doubled or wrong row, and cheap beside the work."""


@contextlib.contextmanager
def open_catalog(folder: Path) -> Iterator[Catalog]:
    """A catalog with the database `b` over files in a folder."""

    async def open_memory() -> Store:
        return MemoryStore(SystemClock())

    metastore = InProcessMetastore(open_memory, lambda store: MetastoreService(store, f"file://{folder}/"))
    with Catalog(metastore, LocationStores()) as catalog:
        catalog.create_database("b")
        yield catalog


def measure_append(bench: Bench) -> Iterator[Figure]:
    """W1 (b): one commit of many rows, against `pq.write_table` with the same options."""
    rows = bench.scaled(BASE_ROWS)
    data = q1(np.arange(rows), 1)
    folder = bench.folder / "w1"
    with open_catalog(folder) as catalog:
        plain_folder = bench.folder / "plain"

        def ours() -> int:
            # Both sides write new files each time and take the last run's away first, so that the disk does the same.
            shutil.rmtree(folder, ignore_errors=True)
            catalog.drop_table("b.t", if_exists=True)
            catalog.create_table("b.t", q1_schema()).append(data)
            return rows

        def plain() -> int:
            shutil.rmtree(plain_folder, ignore_errors=True)
            plain_folder.mkdir()
            _write_plain(data, plain_folder / "reference.parquet")
            return rows

        yield compare("append, SDK", ours, plain, pairs=bench.pairs, target=0.9)
        _check(catalog.table("b.t").scan(HASHED).to_arrow(), data)


def measure_upsert(bench: Bench) -> Iterator[Figure]:
    """W2 (a): small upserts onto a large table, against sort + take + write in plain pyarrow."""
    base = bench.scaled(BASE_ROWS)
    for keys in ("uniform", "zipf"):
        for rows, target in ((20_000, 0.5), (200_000, 0.7)):
            folder = bench.folder / f"w2-{keys}-{rows}"
            with open_catalog(folder) as catalog:
                table = catalog.create_table("b.t", q1_schema(), primary_key=["id"], options={"bucket": "2"})
                table.upsert(q1(np.arange(base), 1))
                yield _measure_upserts(bench, table, keys, rows, base, target)
            shutil.rmtree(folder)


def measure_scan(bench: Bench) -> Iterator[Figure]:
    """W3, SDK: merged reads, cold (positions found anew) and warm, against pyarrow reading the same files unmerged."""
    base = bench.scaled(BASE_ROWS)
    with open_catalog(bench.folder / "w3") as catalog:
        table = catalog.create_table("b.t", q1_schema(), primary_key=["id"], options={"bucket": "2"})
        table.upsert(q1(np.arange(base), 1))
        done = 0
        for deltas in (0, 1, 2, 5, 10, 20):
            for number in range(done, deltas):
                table.upsert(q1(np.random.default_rng(number).permutation(base)[: base // 10], number + 2))
            done = deltas
            for columns in (None, HASHED):
                target = 0.5 if deltas == 5 else None
                label = f"k={deltas}, {'all columns' if columns is None else '3 columns'}"
                yield _measure_read(bench, catalog, table, label, columns, base, target, cold=True)
                if deltas:
                    yield _measure_read(bench, catalog, table, label, columns, base, None, cold=False)
            if deltas == 5:
                yield from _measure_lookups(bench, table, base)


def _measure_upserts(bench: Bench, table: Table, keys: str, rows: int, space: int, target: float) -> Figure:
    random = np.random.default_rng(7)
    number = [0]
    batches = []
    for seed in range(4):
        ids = zipf_ids(random, rows, space) if keys == "zipf" else random.integers(0, space, rows)
        batches.append(q1(ids, seed))
    turn = [0, 0]
    per_run = 10 if rows < 100_000 else 3

    def ours() -> int:
        for _ in range(per_run):
            table.upsert(batches[turn[0] % len(batches)])
            turn[0] += 1
        return per_run

    def plain() -> int:
        for _ in range(per_run):
            data = batches[turn[1] % len(batches)]
            turn[1] += 1
            number[0] += 1
            order = pc.sort_indices(data, sort_keys=[("id", "ascending")])
            _write_plain(data.take(order), bench.folder / f"plain-{number[0] % 8}.parquet")
        return per_run

    figure = compare(
        f"upserts of {rows:,} rows, {keys}, SDK ({per_run} a run)", ours, plain, pairs=bench.pairs, target=target
    )
    last = batches[(turn[0] - 1) % len(batches)]
    newest = {row["id"]: row["v0"] for row in last.select(["id", "v0"]).slice(rows - 100).to_pylist()}
    found = table.scan(["id", "v0"], f"id in ({', '.join(map(str, newest))})").to_arrow().to_pylist()
    if {row["id"]: row["v0"] for row in found} != newest or len(found) != len(newest):
        raise WrongAnswerError("the newest rows are not what was upserted last")
    return figure


def _measure_read(
    bench: Bench,
    catalog: Catalog,
    table: Table,
    label: str,
    columns: list[str] | None,
    rows: int,
    target: float | None,
    *,
    cold: bool,
) -> Figure:
    paths = data_paths(table)
    unmerged = sum(table.files().column("rows").to_pylist())

    def ours() -> bool:
        if cold:
            catalog.positions_cache.clear()
        return table.scan(columns).to_arrow().num_rows == rows

    def plain() -> bool:
        read = [pq.read_table(path, columns=columns) for path in paths]
        return sum(each.num_rows for each in read) == unmerged

    name = f"read, {label}, {'cold' if cold else 'positions cached'}"
    return compare(name, ours, plain, pairs=bench.pairs, target=target)


def _measure_lookups(bench: Bench, table: Table, base: int) -> Iterator[Figure]:
    paths = data_paths(table)
    for label, first, last in (("point", base // 3, base // 3), ("range of 1000", base // 2, base // 2 + 999)):

        def ours(first: int = first, last: int = last) -> int:
            return table.scan(filter=f"id between {first} and {last}").to_arrow().num_rows

        def plain(first: int = first, last: int = last) -> int:
            condition = (ds.field("id") >= first) & (ds.field("id") <= last)
            found = ds.dataset(paths).to_table(filter=condition)
            return len(found.column("id").unique())

        yield compare(f"{label}, k=5", ours, plain, pairs=bench.pairs, target=1.5)


def _write_plain(data: pa.Table, path: Path) -> None:
    pq.write_table(
        data,
        path,
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        row_group_size=ROW_GROUP_ROWS,
        max_rows_per_page=ROW_GROUP_ROWS,
        write_page_checksum=True,
    )
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def data_paths(table: Table) -> list[str]:
    """Where a table's data files are, all of this machine."""
    folder = unquote(table.location.removeprefix("file://"))
    return [folder + path for path in table.files().column("path").to_pylist()]


def _check(found: pa.Table, data: pa.Table) -> None:
    if order_free_hash(found) != order_free_hash(data.select(found.column_names)):
        raise WrongAnswerError("what was read is not what was written")
