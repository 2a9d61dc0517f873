"""Rows of an append table that a condition deletes, and reads before and after it: the SDK's half of W16-delete."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow.compute as pc

from bench.context import Bench
from bench.measure import Figure, Work, WrongAnswerError, absolute, compare
from bench.sdk import BASE_ROWS, HASHED, open_catalog
from bench.shapes import order_free_hash, q1, q1_schema
from lakelog.sdk.tables.table import Table

FIRST_KEPT: Final = -(2**62) + 2**63 // 100

SPREAD: Final = f"v0 < {FIRST_KEPT}"
"""One row of a hundred, in all row groups."""


def measure_deletes(bench: Bench) -> Iterator[Figure]:
    """`delete_where` of one row of a hundred, far apart and side by side; then reads, with and without deleted rows."""
    rows = bench.scaled(BASE_ROWS)
    with open_catalog(bench.folder / "w16") as catalog:
        whole = catalog.create_table("b.whole", q1_schema())
        table = catalog.create_table("b.t", q1_schema())
        data = q1(np.arange(rows), 1)
        whole.append(data)
        table.append(data)
        for label, condition in (("far apart", SPREAD), ("side by side", f"id < {rows // 100}")):
            taken = [_delete(table, condition) for _ in range(bench.pairs)]
            yield absolute(f"delete_where of 1 %, {label}, SDK", "s", taken, target=0.5)
        table.delete_where(SPREAD)
        kept = data.filter(pc.field("v0") >= FIRST_KEPT)
        if order_free_hash(table.scan(HASHED).to_arrow()) != order_free_hash(kept.select(HASHED)):
            raise WrongAnswerError("the rows that are left are other ones")
        for columns in (None, HASHED):
            name = f"read after it, {'all' if columns is None else len(columns)} columns, SDK"
            after, before = _read(table, columns), _read(whole, columns)
            yield compare(name, after, before, pairs=bench.pairs, target=0.9, same_answer=False)


def _delete(table: Table, condition: str) -> float:
    """Seconds of a deletion, which is rolled back afterwards."""
    began_s = time.perf_counter()
    deleted = table.delete_where(condition).deleted_rows
    took_s = time.perf_counter() - began_s
    if table.count() + (deleted or 0) != table.scan(snapshot_id=1).count() or table.count(condition):
        raise WrongAnswerError(f"'{condition}' did not delete {deleted} rows")
    table.rollback_to(1)
    return took_s


def _read(table: Table, columns: list[str] | None) -> Work:
    return lambda: sum(batch.num_rows for batch in table.scan(columns).to_batches())
