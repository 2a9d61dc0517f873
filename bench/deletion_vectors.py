"""What marks spare reads, and what they cost: a large run and two that overlap it, read before and after.

Both reads are cold: which rows are superseded is found anew, or taken from the file that the mark has written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from typing import Final

import numpy as np
import pyarrow.parquet as pq

from bench.context import Bench
from bench.expected import Q1Model, check_rows
from bench.measure import Figure, Work, absolute, compare_variants
from bench.sdk import HASHED, data_paths, open_catalog
from bench.shapes import q1, q1_schema
from compactor.compactions.deletion_vectors import to_deletion_vector_change
from lakelog.format.commit.request import BucketRef, CommitRequest
from lakelog.format.tables.plan import PlanRequest
from lakelog.options.values import TableOptions
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.lookup.bucket_changes import group_by_bucket
from lakelog.storage.merging.bucket_vectors import build_deletion_vectors, pick_sections
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.parquet.live_file import to_live_files

VECTORED_ROWS: Final = 2_000_000
DELTAS: Final = 2


def measure_deletion_vectors(bench: Bench) -> Iterator[Figure]:
    """All columns and three through the SDK, against pyarrow reading the same files unmerged."""
    base = bench.scaled(VECTORED_ROWS)
    with open_catalog(bench.folder / "w3-marked") as catalog:
        table = catalog.create_table("b.t", q1_schema(), primary_key=["id"], options={"bucket": "2"})
        model = Q1Model(base)
        for number in range(DELTAS + 1):
            ids = np.random.default_rng(number).permutation(base)[: base // 10] if number else np.arange(base)
            rows = q1(ids, number + 1)
            table.upsert(rows)
            model.apply(rows)
        yield from _measure_reads(bench, catalog, table, model, "not marked")
        yield absolute(
            f"mark, {base:,} + {DELTAS} x {base // 10:,} rows in 2 buckets", "s", [build_vectors(catalog, table)]
        )
        yield from _measure_reads(bench, catalog, table, model, "marked")


def build_vectors(catalog: Catalog, table: Table) -> float:
    """Marks all buckets of a table, one after the other, as their jobs would; how many seconds that took."""
    metastore = catalog.metastore
    began_s = time.perf_counter()
    plan = metastore.plan(PlanRequest(table.uuid))
    info, options = plan.table, TableOptions(plan.table.options)
    policy = to_merge_policy(info.schema, options)
    for number, ((partition, bucket), files) in enumerate(group_by_bucket(to_live_files(plan.files)).items()):
        attempt_id = metastore.stage_attempt([table.uuid], "bench").attempt_id
        path = f"data/{attempt_id}/deletion-vectors-{bucket}.parquet"
        sections = pick_sections(files, policy)
        vectors = build_deletion_vectors(catalog.open_store(info), info.schema, options, path, sections, lambda: None)
        assert plan.snapshot is not None, "it has files"
        change = to_deletion_vector_change(info, plan.snapshot, BucketRef(partition, bucket), vectors)
        metastore.commit(CommitRequest("bench", number, (change,), attempt_id))
    return time.perf_counter() - began_s


def _measure_reads(bench: Bench, catalog: Catalog, table: Table, model: Q1Model, state: str) -> Iterator[Figure]:
    for columns in (None, HASHED):
        label = f"read, k={DELTAS}, {'all' if columns is None else len(columns)} columns, SDK, {state}"
        ours = _read(catalog, table, model, label, columns)
        yield from compare_variants({label: (ours, None)}, _read_plainly(table, columns), pairs=bench.pairs)


def _read(catalog: Catalog, table: Table, model: Q1Model, label: str, columns: list[str] | None) -> Work:
    def read() -> Callable[[], Hashable]:
        catalog.context.caches.deletion_vectors.clear()
        found = table.scan(columns).to_arrow()
        return lambda: check_rows(label, found, model, tuple(HASHED))

    return read


def _read_plainly(table: Table, columns: list[str] | None) -> Work:
    paths, rows = data_paths(table), sum(table.files().column("rows").to_pylist())
    return lambda: sum(pq.read_table(path, columns=columns).num_rows for path in paths) == rows
