"""The SDK's halves of W1, W2 and W3: writing and reading from Arrow, against plain pyarrow on the same rows.

The metastore runs in this process over its store in memory, so that what is measured is the SDK and the files; W9
measures the gate. Files are durable on both sides: the reference synchronises what it wrote as well.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.context import Bench
from bench.expected import Q1Model, check_rows
from bench.growth import commit_growth
from bench.measure import Figure, Work, WrongAnswerError, compare, compare_variants
from bench.shapes import order_free_hash, q1, q1_schema, zipf_ids
from lakelog.clock import SystemClock
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from lakelog.storage.parquet.writer import ROW_GROUP_ROWS
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases

BASE_ROWS = 4_000_000
HASHED = ["id", "v0", "ts"]
"""Columns of the order-free hash: enough to find a lost, doubled or wrong row, and cheap beside the work."""


@contextlib.contextmanager
def open_catalog(folder: Path) -> Iterator[Catalog]:
    """A catalog with the database `b` over files in a folder."""

    async def open_memory() -> Store:
        return MemoryStore(SystemClock())

    metastore = in_process(open_memory, lambda store: UseCases(store, f"file://{folder}/"))
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
            write_plain(data, plain_folder / "reference.parquet")
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
                model = Q1Model(base)
                _upsert(table, model, q1(np.arange(base), 1))
                yield from _measure_upserts(bench, table, model, keys, rows, base, target)
            shutil.rmtree(folder)


def measure_scan(bench: Bench) -> Iterator[Figure]:
    """W3, SDK: merged reads, cold (positions found anew) and warm, against pyarrow reading the same files unmerged."""
    base = bench.scaled(BASE_ROWS)
    with open_catalog(bench.folder / "w3") as catalog:
        table = catalog.create_table("b.t", q1_schema(), primary_key=["id"], options={"bucket": "2"})
        model = Q1Model(base)
        _upsert(table, model, q1(np.arange(base), 1))
        done = 0
        for deltas in (0, 1, 2, 5, 10, 20):
            for number in range(done, deltas):
                ids = np.random.default_rng(number).permutation(base)[: base // 10]
                _upsert(table, model, q1(ids, number + 2))
            done = deltas
            for columns in (None, HASHED):
                target = 0.5 if deltas == 5 else None
                label = f"read, k={deltas}, {'all' if columns is None else len(columns)} columns, SDK"
                yield from _measure_read(bench, catalog, table, model, label, columns, target)
            if deltas == 5:
                yield from _measure_lookups(bench, table, base)


def _upsert(table: Table, model: Q1Model, data: pa.Table) -> None:
    table.upsert(data)
    model.apply(data)


def _measure_upserts(
    bench: Bench, table: Table, model: Q1Model, keys: str, rows: int, space: int, target: float
) -> Iterator[Figure]:
    random = np.random.default_rng(7)
    number = [0]
    batches = []
    for seed in range(4):
        ids = zipf_ids(random, rows, space) if keys == "zipf" else random.integers(0, space, rows)
        batches.append(q1(ids, seed))
    turn = [0, 0]
    commits_s: list[float] = []
    per_run = 3 if rows >= 100_000 else 34 if keys == "uniform" and not bench.quick else 10

    def ours() -> int:
        for _ in range(per_run):
            begin = time.perf_counter()
            table.upsert(batches[turn[0] % len(batches)])
            commits_s.append(time.perf_counter() - begin)
            turn[0] += 1
        return per_run

    def plain() -> int:
        for _ in range(per_run):
            data = batches[turn[1] % len(batches)]
            turn[1] += 1
            number[0] += 1
            order = pc.sort_indices(data, sort_keys=[("id", "ascending")])
            write_plain(data.take(order), bench.folder / f"plain-{number[0] % 8}.parquet")
        return per_run

    label = f"upserts of {rows:,} rows, {keys}, SDK"
    yield compare(f"{label} ({per_run} a run)", ours, plain, pairs=bench.pairs, target=target)
    yield from commit_growth(label, commits_s)
    for place in range(turn[0]):
        model.apply(batches[place % len(batches)])
    check_rows(label, table.scan(HASHED).to_arrow(), model, tuple(HASHED))


def _measure_read(
    bench: Bench,
    catalog: Catalog,
    table: Table,
    model: Q1Model,
    label: str,
    columns: list[str] | None,
    target: float | None,
) -> list[Figure]:
    paths = data_paths(table)
    unmerged = sum(table.files().column("rows").to_pylist())

    def ours() -> Callable[[], Hashable]:
        found = table.scan(columns).to_arrow()
        return lambda: check_rows(label, found, model, tuple(HASHED))

    def cold() -> Callable[[], Hashable]:
        catalog.context.caches.deletion_vectors.clear()
        return ours()

    def plain() -> bool:
        read = [pq.read_table(path, columns=columns) for path in paths]
        return sum(each.num_rows for each in read) == unmerged

    # The cold one comes last in each turn, so that what it finds is known to the other one in the next.
    variants: dict[str, tuple[Work, float | None]] = {
        f"{label}, cached": (ours, None),
        f"{label}, cold": (cold, target),
    }
    if unmerged == len(model):
        # Nothing overlaps, so that there is nothing to find.
        variants = {label: (ours, target)}
    return compare_variants(variants, plain, pairs=bench.pairs)


def _measure_lookups(bench: Bench, table: Table, base: int) -> Iterator[Figure]:
    paths = data_paths(table)
    for label, first, last in (("point", base // 3, base // 3), ("range of 1000", base // 2, base // 2 + 999)):

        def ours(first: int = first, last: int = last) -> int:
            return table.scan(filter=f"id between {first} and {last}").to_arrow().num_rows

        def plain(first: int = first, last: int = last) -> int:
            condition = (ds.field("id") >= first) & (ds.field("id") <= last)
            found = ds.dataset(paths).to_table(filter=condition)
            return len(found.column("id").unique())

        yield compare(f"{label}, k=5, SDK", ours, plain, pairs=bench.pairs, target=1.5)


def write_plain(data: pa.Table, path: Path) -> None:
    """Writes rows as a data file is written, durably."""
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
