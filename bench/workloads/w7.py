"""W7: how fast a subscriber catches up with many small commits, against one batch read of the same files."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

import numpy as np
import pyarrow as pa

from bench.context import Bench
from bench.measure import Figure, compare
from bench.sdk import HASHED, open_catalog
from bench.shapes import order_free_hash, q1, q1_schema
from lakelog.format.rowkind import ROW_KIND_COLUMN
from lakelog.table import Table

TITLE = "stream catch-up: 500 snapshots of 20 k rows, append table and changes of a keyed one, SDK"
_SNAPSHOTS = 500
_ROWS = 20_000
_KEYS = 2_000_000


def run(bench: Bench) -> Iterator[Figure]:
    """Of the keyed table each change comes with its old row; the reference reads the rows as they were written."""
    snapshots = bench.scaled(_SNAPSHOTS)
    with open_catalog(bench.folder / "append") as catalog:
        table = catalog.create_table("b.t", q1_schema())
        for number in range(snapshots):
            table.append(q1(np.arange(number * _ROWS, (number + 1) * _ROWS), number))
        yield compare(
            "catch-up, append table, SDK", _catch_up(table, snapshots), _scan(table), pairs=bench.pairs, target=0.85
        )
    with open_catalog(bench.folder / "keyed") as catalog:
        table = catalog.create_table("b.t", q1_schema(), primary_key=["id"], options={"bucket": "2"})
        random = np.random.default_rng(1)
        for number in range(snapshots):
            table.upsert(q1(np.sort(random.choice(bench.scaled(_KEYS), _ROWS, replace=False)), number))
        yield compare(
            "catch-up, changes with old rows, SDK",
            _catch_up(table, snapshots),
            _scan_raw(table, snapshots),
            pairs=bench.pairs,
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


def _answer(rows: pa.Table) -> Hashable:
    return rows.num_rows, order_free_hash(rows)
