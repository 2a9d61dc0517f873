"""W7: how fast a subscriber, or a stream of Spark, catches up with many small commits, against one batch read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.context import Bench
from bench.measure import Figure, compare
from bench.sdk import HASHED, open_catalog
from bench.shapes import order_free_hash, q1, q1_schema
from bench.spark import streams
from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

TITLE = "stream catch-up: 500 snapshots of 20 k rows, append table and changes of a keyed one"
_SNAPSHOTS = 500
_ROWS = 20_000
_KEYS = 2_000_000


def measure_sdk(bench: Bench) -> Iterator[Figure]:
    """Changes come from a changelog, or with old rows looked up; the reference reads the same files as they are."""
    snapshots = bench.scaled(_SNAPSHOTS)
    with open_catalog(bench.folder / "append") as catalog:
        table = catalog.create_table("b.t", q1_schema())
        for number in range(snapshots):
            table.append(q1(np.arange(number * _ROWS, (number + 1) * _ROWS), number))
        yield compare(
            "catch-up, append table, SDK", _catch_up(table, snapshots), _scan(table), pairs=bench.pairs, target=0.85
        )
    for producer, label, target in (
        ("lookup", "changelog of a keyed table", 0.5),
        ("none", "changes whose old rows are looked up", None),
    ):
        options = {"bucket": "2", "changelog-producer": producer}
        with open_catalog(bench.folder / producer) as catalog:
            table = catalog.create_table("b.t", q1_schema(), primary_key=["id"], options=options)
            random = np.random.default_rng(1)
            for number in range(snapshots):
                table.upsert(q1(np.sort(random.choice(bench.scaled(_KEYS), _ROWS, replace=False)), number))
            reference = (
                _scan_changelog(catalog, table, snapshots) if producer == "lookup" else _scan_raw(table, snapshots)
            )
            yield compare(
                f"catch-up, {label}, SDK", _catch_up(table, snapshots), reference, pairs=bench.pairs, target=target
            )


def _catch_up(table: Table, snapshots: int) -> Callable[[], Hashable]:
    def read() -> Hashable:
        rows: list[pa.Table] = []
        with table.subscribe(options={"scan.snapshot-id": 1}) as stream:
            for batch in stream:
                data = pa.Table.from_batches([batch.data])
                if ROW_KIND_COLUMN in data.schema.names:
                    # What was written is what the changes add.
                    data = data.filter(pa.compute.starts_with(data.column(ROW_KIND_COLUMN), "+"))
                rows.append(data.select(HASHED))
                if batch.snapshot_id == snapshots and stream.is_whole:
                    break
        return lambda: _answer(pa.concat_tables(rows))

    return read


def _scan(table: Table) -> Callable[[], Hashable]:
    def read() -> Hashable:
        rows = [pa.Table.from_batches([batch]).select(HASHED) for batch in table.scan().to_batches()]
        return lambda: _answer(pa.concat_tables(rows))

    return read


def _scan_raw(table: Table, snapshots: int) -> Callable[[], Hashable]:
    def read() -> Hashable:
        found = table.changes(0, snapshots, raw=True)
        rows = [pa.Table.from_batches([batch]).select(HASHED) for batch in found.to_batches()]
        return lambda: _answer(pa.concat_tables(rows))

    return read


def _scan_changelog(catalog: Catalog, table: Table, snapshots: int) -> Callable[[], Hashable]:
    request = PlanRequest(table.uuid, InRange(0, snapshots), changelog=True)
    paths = catalog.metastore.plan(request).files.column("path").to_pylist()
    folder = Path(table.location.removeprefix("file://"))
    columns = [*q1_schema().names, ROW_KIND_COLUMN]

    def read() -> Hashable:
        rows = [
            data.filter(is_new).select(HASHED)
            for data in (pq.read_table(folder / path, columns=columns) for path in paths)
            for is_new in [pc.is_in(data.column(ROW_KIND_COLUMN), value_set=pa.array([0, 2], pa.int8()))]
        ]
        return lambda: _answer(pa.concat_tables(rows))

    return read


def _answer(rows: pa.Table) -> Hashable:
    return rows.num_rows, order_free_hash(rows)


PARTS = {"sdk": measure_sdk, "spark": streams.measure_catch_up}
