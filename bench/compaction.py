"""W4: putting a large run and many overlapping ones into one, against reading all rows and writing the result.

The metastore runs in this process over its store in memory, and nothing is committed, so that each run of both sides
finds the same files. Two buckets are done at once on both sides, by a thread each, and what is written is durable.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.context import Bench
from bench.expected import Q1Model, check_rows
from bench.measure import Figure, absolute, compare
from bench.sdk import BASE_ROWS, HASHED, data_paths, open_catalog, write_plain
from bench.shapes import q1, q1_schema
from lakelog.catalog import Catalog
from lakelog.format.files import DataFile
from lakelog.format.plan import PlanRequest
from lakelog.options.values import TableOptions
from lakelog.storage.bucket_changes import group_by_bucket
from lakelog.storage.live_file import LiveFile, to_live_files
from lakelog.storage.run_rewrite import RunRewrite, rewrite_runs
from lakelog.table import Table

_BUCKETS = 2
_DELTAS = 10
_LEVEL = 5


def measure_full(bench: Bench) -> Iterator[Figure]:
    """All runs of a table of Q1 rows, 4 M and 10 x 400 k whose keys overlap; then the memory, also of half of it."""
    base = bench.scaled(BASE_ROWS)
    with open_catalog(bench.folder / "w4") as catalog:
        model = Q1Model(base)
        table = _make_table(catalog, "b.whole", model)
        folder = Path(data_paths(table)[0]).parents[2]
        plain_folder = bench.folder / "plain"
        results = _merge_plainly(table)

        def ours() -> Callable[[], Hashable]:
            made = _rewrite(table)
            return lambda: _check(folder, made, model)

        def plain() -> bool:
            plain_folder.mkdir()
            with ThreadPoolExecutor(_BUCKETS) as pool:
                done = pool.map(lambda each: _read_and_write(each, plain_folder), results.items())
                rows = sum(done)
            shutil.rmtree(plain_folder)
            return rows > 0

        label = f"full compaction, {base:,} + {_DELTAS} x {base // 10:,} rows"
        yield compare(label, ours, plain, pairs=bench.pairs, target=0.7)
        half = Q1Model(base // 2)
        less = _measure_memory(_make_table(catalog, "b.half", half), half)
        yield absolute(f"most Arrow memory held, {base // 2:,} rows in {_BUCKETS} buckets", "MiB", [less])
        most = _measure_memory(table, model)
        # A tenth has runs that are smaller than a row group, of which less is held.
        target = None if bench.quick else round(1.25 * less)
        yield absolute(f"most Arrow memory held, {base:,} rows in {_BUCKETS} buckets", "MiB", [most], target=target)


def _make_table(catalog: Catalog, name: str, model: Q1Model) -> Table:
    base = len(model)
    table = catalog.create_table(name, q1_schema(), primary_key=["id"], options={"bucket": str(_BUCKETS)})
    for number in range(_DELTAS + 1):
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
    _check(Path(data_paths(table)[0]).parents[2], made, model)
    return (counting.max_memory() or 0) / 2**20


def _rewrite(table: Table) -> list[DataFile]:
    catalog = table._catalog
    plan = catalog.metastore.plan(PlanRequest(table.uuid))
    assert plan.snapshot is not None
    time_ms = plan.snapshot.committed_at_ms
    store, options = catalog.open_store(plan.table), TableOptions(plan.table.options)

    def rewrite(files: Sequence[LiveFile]) -> tuple[DataFile, ...]:
        work = RunRewrite("full", tuple(files), (), time_ms, _LEVEL)
        return rewrite_runs(store, plan.schema, options, "0" * 32, work)

    with ThreadPoolExecutor(_BUCKETS) as pool:
        return [
            file for files in pool.map(rewrite, group_by_bucket(to_live_files(plan.files)).values()) for file in files
        ]


def _check(folder: Path, made: Sequence[DataFile], model: Q1Model) -> bool:
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
    half = rows.num_rows // _BUCKETS
    return {by_bucket[bucket]: rows.slice(place * half, half) for place, bucket in enumerate(sorted(by_bucket))}


def _read_and_write(work: tuple[tuple[str, ...], pa.Table], folder: Path) -> int:
    paths, result = work
    # Files are let go of one by one, as whoever merges would.
    rows = sum(pq.read_table(path).num_rows for path in paths)
    write_plain(result, folder / f"{Path(paths[0]).stem}.parquet")
    return rows
