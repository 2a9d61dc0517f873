"""W4: putting a large run and many overlapping ones into one, against reading all rows and writing the result.

The metastore runs in this process over its store in memory, and nothing is committed, so that each run of both sides
finds the same files. Two buckets are done at once on both sides, by a thread each, and what is written is durable.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.context import Bench
from bench.expected import Q1Model, check_rows
from bench.measure import Figure, absolute, compare
from bench.sdk import BASE_ROWS, HASHED, data_paths, open_catalog, write_plain
from bench.shapes import q1, q1_schema
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.types.schema import TableSchema
from lakelog.options.values import TableOptions
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.lookup.bucket_changes import group_by_bucket
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import to_live_files
from lakelog.storage.rewrite.runs import RunRewrite, rewrite_runs

T = TypeVar("T")

BUCKETS: Final = 2
DELTAS: Final = 10
LEVEL: Final = 5
ATTEMPT: Final = "0" * 32


def measure_full(bench: Bench) -> Iterator[Figure]:
    """All runs of a table of Q1 rows, 4 M and 10 x 400 k whose keys overlap; then the memory, also of half of it."""
    base = bench.scaled(BASE_ROWS)
    with open_catalog(bench.folder / "w4") as catalog:
        model = Q1Model(base)
        table = make_runs(catalog, "b.whole", model)
        folder = table_folder(table)
        plain_folder = bench.folder / "plain"
        results = _merge_plainly(table)

        def ours() -> Callable[[], Hashable]:
            made = _rewrite(table)
            return lambda: check_rewritten(folder, made, model)

        def plain() -> bool:
            plain_folder.mkdir()
            with ThreadPoolExecutor(BUCKETS) as pool:
                done = pool.map(lambda each: _read_and_write(each, plain_folder), results.items())
                rows = sum(done)
            shutil.rmtree(plain_folder)
            return rows > 0

        label = f"full compaction, {base:,} + {DELTAS} x {base // 10:,} rows"
        yield compare(label, ours, plain, pairs=bench.pairs, target=0.7)
        half = Q1Model(base // 2)
        less = _measure_memory(make_runs(catalog, "b.half", half), half)
        yield absolute(f"most Arrow memory held, {base // 2:,} rows in {BUCKETS} buckets", "MiB", [less])
        most = _measure_memory(table, model)
        # A tenth has runs that are smaller than a row group, of which less is held.
        target = None if bench.quick else round(1.25 * less)
        yield absolute(f"most Arrow memory held, {base:,} rows in {BUCKETS} buckets", "MiB", [most], target=target)


def make_runs(catalog: Catalog, name: str, model: Q1Model) -> Table:
    """A table of one large run and ten that overlap it, a tenth as large each, in two buckets."""
    base = len(model)
    table = catalog.create_table(name, q1_schema(), primary_key=["id"], options={"bucket": str(BUCKETS)})
    for number in range(DELTAS + 1):
        ids = np.arange(base)
        if number:
            ids = np.random.default_rng(number).permutation(base)[: base // 10]
        rows = q1(ids, number + 1)
        table.upsert(rows)
        model.apply(rows)
    return table


def _measure_memory(table: Table, model: Q1Model) -> float:
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counting)
    try:
        made = _rewrite(table)
    finally:
        pa.set_memory_pool(usual)
    check_rewritten(table_folder(table), made, model)
    return (counting.max_memory() or 0) / 2**20


def _rewrite(table: Table) -> list[DataFile]:
    def rewrite(bucket: Bucket) -> tuple[DataFile, ...]:
        return rewrite_runs(bucket.store, bucket.schema, bucket.options, ATTEMPT, bucket.rewrite)

    return [file for files in each_bucket(table, rewrite) for file in files]


@dataclass(frozen=True)
class Bucket:
    """All that is known of a bucket's compaction."""

    store: ObjectStore
    schema: TableSchema
    options: TableOptions
    rewrite: RunRewrite


def each_bucket(table: Table, work: Callable[[Bucket], T]) -> list[T]:
    """Does some work on the full compaction of each bucket, on all at once."""
    catalog = table._context
    plan = catalog.metastore.plan(PlanRequest(table.uuid))
    assert plan.snapshot is not None
    time_ms = plan.snapshot.committed_at_ms
    store, options = catalog.open_store(plan.table), TableOptions(plan.table.options)
    buckets = [
        Bucket(store, plan.schema, options, RunRewrite("full", tuple(files), (), time_ms, LEVEL))
        for files in group_by_bucket(to_live_files(plan.files)).values()
    ]
    with ThreadPoolExecutor(BUCKETS) as pool:
        return list(pool.map(work, buckets))


def table_folder(table: Table) -> Path:
    """Where the table's files are."""
    return Path(data_paths(table)[0]).parents[2]


def check_rewritten(folder: Path, made: Sequence[DataFile], model: Q1Model) -> bool:
    """True: the files hold the model's rows; they are deleted."""
    paths = [folder / file.path for file in made]
    found = pa.concat_tables([pq.read_table(path, columns=HASHED) for path in paths])
    for path in paths:
        path.unlink()
    return check_rows("full compaction", found, model, tuple(HASHED))


def _merge_plainly(table: Table) -> dict[tuple[str, ...], pa.Table]:
    """What each bucket's files, by their paths, come to."""
    files = table.files()
    rows = table.scan().to_arrow()
    paths, buckets = data_paths(table), files.column("bucket").to_pylist()
    by_bucket = {
        bucket: tuple(p for p, b in zip(paths, buckets, strict=True) if b == bucket) for bucket in set(buckets)
    }
    # Rows as many as a bucket's and as wide; which ones they are is all the same to whoever writes them.
    half = rows.num_rows // BUCKETS
    return {by_bucket[bucket]: rows.slice(place * half, half) for place, bucket in enumerate(sorted(by_bucket))}


def _read_and_write(work: tuple[tuple[str, ...], pa.Table], folder: Path) -> int:
    paths, result = work
    # Files are let go of one by one, as whoever merges would.
    rows = sum(pq.read_table(path).num_rows for path in paths)
    write_plain(result, folder / f"{Path(paths[0]).stem}.parquet")
    return rows
