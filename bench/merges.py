"""Merges of rows into a table, half of them updates and half inserts: W16-merge.

Iceberg 1.10 takes 2.55 s and Delta 4.1 takes 6.2 s for the same rows on two cores (Spark 4, MERGE INTO).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from bench.sdk import BASE_ROWS, HASHED, open_catalog
from bench.shapes import order_free_hash, q1, q1_schema
from lakelog import when_matched, when_not_matched
from lakelog.results import MergeResult
from lakelog.sdk.tables.table import Table

_TARGET_S: Final = 0.85
"""A third of Iceberg's time."""

_SHARE: Final = 20
"""One row in the source for so many in the table."""

_Merge = Callable[[Table, pa.Table], MergeResult]


def measure_merges(bench: Bench) -> Iterator[Figure]:
    """Merges into a keyed table by its key without and with conditions, and into an append table by a column."""
    rows = bench.scaled(BASE_ROWS)
    data = q1(np.arange(rows), 1)
    half = rows // _SHARE // 2
    known = np.random.default_rng(3).permutation(rows)[:half]
    source = q1(np.concatenate([known, rows + np.arange(half)]), 2)
    kept = data.filter(pc.invert(pc.is_in(data.column("id"), value_set=pa.array(known))))
    expected = order_free_hash(pa.concat_tables([kept, source]).select(HASHED))
    cases: Sequence[tuple[str, bool, _Merge]] = (
        ("keyed, by its key", True, _merge_all),
        ("keyed, with conditions", True, _merge_by_conditions),
        ("append, by a column", False, _merge_all),
        ("append, with conditions", False, _merge_by_conditions),
    )
    with open_catalog(bench.folder / "w16") as catalog:
        for number, (label, is_keyed, merge) in enumerate(cases):
            options = {"bucket": "2"} if is_keyed else {}
            key = ["id"] if is_keyed else []
            table = catalog.create_table(f"b.t{number}", q1_schema(), primary_key=key, options=options)
            table.append(data)
            taken = [_measure(table, source, merge, expected) for _ in range(bench.pairs + 1)]
            yield absolute(f"merge, {label}, SDK", "s", taken[1:], target=_TARGET_S)


def _measure(table: Table, source: pa.Table, merge: _Merge, expected: int) -> float:
    """Seconds of a merge, which is rolled back afterwards."""
    began_s = time.perf_counter()
    merge(table, source)
    took_s = time.perf_counter() - began_s
    if order_free_hash(table.scan(HASHED).to_arrow()) != expected:
        raise WrongAnswerError("the table has other rows after the merge")
    table.rollback_to(1)
    return took_s


def _merge_all(table: Table, source: pa.Table) -> MergeResult:
    return table.merge(source, ["id"], when_matched().update_all(), when_not_matched().insert_all())


def _merge_by_conditions(table: Table, source: pa.Table) -> MergeResult:
    # All rows fulfil them, but nothing knows.
    return table.merge(
        source,
        "target.id = source.id",
        when_matched("source.v0 <> target.v0").update_all(),
        when_not_matched("source.id >= 0").insert_all(),
    )
