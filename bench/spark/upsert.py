"""W2 (b): small upserts onto a large table, against Spark's repartition + sort + `write.parquet` of the same rows."""

from __future__ import annotations

import functools
import shutil
import time
import uuid
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import lakelog.spark
from bench.context import Bench
from bench.expected import Q1Model, check_equal, check_rows
from bench.growth import commit_growth
from bench.measure import Figure, compare
from bench.sdk import BASE_ROWS, HASHED
from bench.shapes import order_free_hash, q1, q1_schema, zipf_ids
from bench.spark.stack import WARM_UPS, SparkBench, open_spark, write_plain
from lakelog.sdk.tables.table import Table

_BUCKETS = 2
_BATCHES = 4
_CASES = (
    ("uniform", 20_000, 30),
    ("zipf", 20_000, 10),
    ("uniform", 200_000, 7),
    ("zipf", 200_000, 7),
)
"""Keys, rows of a commit, commits of a run; of the first case there are 210 with five pairs and the warm-ups."""


@dataclass(frozen=True)
class _Batch:
    """One upsert: as Spark reads it, and its rows in order."""

    frame: DataFrame
    rows: pa.Table


@dataclass
class _Ours:
    """A table that is upserted into, and the model of what it must hold."""

    table: Table
    model: Q1Model
    batches: Iterator[_Batch]
    commits_s: list[float] = field(default_factory=list)
    snapshot_id: int = 1


def measure_upsert(bench: Bench) -> Iterator[Figure]:
    """Ours is to be 0.85 as fast, whatever the size of the commit; and a commit is not to become slower by others."""
    base = bench.scaled(BASE_ROWS)
    with open_spark(bench) as on:
        for number, (keys, rows, per_run) in enumerate(_CASES):
            yield from _measure(bench, on, f"b.t{number}", base, keys, rows, bench.scaled(per_run))


def _measure(
    bench: Bench, on: SparkBench, name: str, base: int, keys: str, rows: int, per_run: int
) -> Iterator[Figure]:
    table = on.catalog.create_table(name, q1_schema(), primary_key=["id"], options={"bucket": str(_BUCKETS)})
    data, model = q1(np.arange(base), 1), Q1Model(base)
    table.upsert(data)
    model.apply(data)
    del data
    batches = _write_batches(on, name, keys, rows, base)
    ours = _Ours(table, model, cycle(batches))
    label = f"upserts of {rows:,} rows, {keys}, Spark ({per_run} a run)"
    yield compare(
        label,
        functools.partial(_upsert, ours, name, per_run),
        functools.partial(_write, on.folder, cycle(batches), per_run),
        pairs=bench.pairs,
        warm_ups=WARM_UPS,
        target=0.85,
    )
    yield from commit_growth(f"upserts of {rows:,} rows, {keys}, Spark", ours.commits_s)
    check_rows(label, table.scan(HASHED).to_arrow(), model, tuple(HASHED))
    on.catalog.drop_table(name)


def _write_batches(on: SparkBench, name: str, keys: str, rows: int, space: int) -> list[_Batch]:
    random = np.random.default_rng(7)
    batches = []
    for seed in range(_BATCHES):
        ids = zipf_ids(random, rows, space) if keys == "zipf" else random.integers(0, space, rows)
        data = q1(ids, seed)
        # A union keeps its parts in their order, and a file of one row group is read by one task: so it is known which
        # of two rows of a key is the later one.
        frames = []
        for half in range(2):
            path = on.folder / f"{name}-{seed}-{half}.parquet"
            part = data.slice(half * rows // 2, rows // 2)
            pq.write_table(part, path, compression="zstd", use_dictionary=False, row_group_size=rows)
            frames.append(on.read(path))
        batches.append(_Batch(frames[0].unionAll(frames[1]), data))
    return batches


def _upsert(ours: _Ours, name: str, per_run: int) -> Callable[[], Hashable]:
    written = list(islice(ours.batches, per_run))
    results = []
    for batch in written:
        begin = time.perf_counter()
        results.append(lakelog.spark.write(batch.frame, name))
        ours.commits_s.append(time.perf_counter() - begin)

    def answer() -> int:
        for result, batch in zip(results, written, strict=True):
            ours.snapshot_id += 1
            check_equal("the snapshot of an upsert", result.snapshot_id, ours.snapshot_id)
            ours.model.apply(batch.rows)
        added = ours.table.snapshots().filter(pc.field("id") > ours.snapshot_id - per_run)
        distinct = [len(np.unique(batch.rows.column("id").to_numpy())) for batch in written]
        check_equal("rows of upserts", added.column("added_rows").to_pylist(), distinct)
        return sum(batch.rows.num_rows for batch in written)

    return answer


def _write(folder: Path, batches: Iterator[_Batch], per_run: int) -> Callable[[], Hashable]:
    written = [(batch, folder / uuid.uuid4().hex) for batch in islice(batches, per_run)]
    for batch, place in written:
        ordered = batch.frame.repartition(_BUCKETS, "id").sortWithinPartitions("id")
        write_plain(ordered, place, dictionary=False)

    def answer() -> int:
        count = 0
        for batch, place in written:
            found = pq.read_table(place, columns=HASHED)
            check_equal("write.parquet", order_free_hash(found), order_free_hash(batch.rows.select(HASHED)))
            count += found.num_rows
            shutil.rmtree(place)
        return count

    return answer
