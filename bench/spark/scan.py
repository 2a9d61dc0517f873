"""W3 through Spark: merged reads, against Spark's scan of the same files unmerged.

Both sides make their DataFrame anew each time, as a query does. *Cold*: which rows are superseded is found anew;
*cached*: the session knows it from a read before, as it is with a table that is read more often than written.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import lakelog.spark
from bench.context import Bench
from bench.deletion_vectors import DELTAS, VECTORED_ROWS, build_vectors
from bench.expected import Q1_COLUMNS, Q1Model, check_equal, check_rows, digest_sql
from bench.measure import Figure, Work, absolute, compare, compare_variants
from bench.sdk import BASE_ROWS, HASHED, data_paths
from bench.shapes import q1, q1_schema
from bench.spark.stack import WARM_UPS, SparkBench, open_spark
from lakelog.sdk.tables.table import Table
from lakelog.spark.installation import installation_of

_DELTAS = (0, 1, 2, 5, 10, 20)
_QUICK_DELTAS = (0, 5, 20)
_ALL_TARGETS = {0: 0.95, 5: 0.85, 20: 0.8}
_ALL_CACHED_TARGET = 0.9
"""What is aimed at with committed bitmaps: nothing has to be found then either."""
_NARROW_TARGETS = {5: 0.7, 20: 0.55}
_LOOKUP_TARGET = 1.5
FORMAT_ROWS = 1_350_000
_FORMAT_TARGET = 0.67
"""At most 1.5 times as long as `read_table`."""
_COMMITTED_TARGETS = {5: 0.9, 20: 0.9}


@dataclass(frozen=True)
class _State:
    """The table with some deltas."""

    on: SparkBench
    table: Table
    model: Q1Model
    deltas: int

    def paths(self) -> list[str]:
        return data_paths(self.table)


def measure_scan(bench: Bench) -> Iterator[Figure]:
    """All columns and three, a point and a range, with 0 to 20 deltas of a tenth of the base each."""
    base = bench.scaled(BASE_ROWS)
    with open_spark(bench) as on:
        table = on.catalog.create_table("b.t", q1_schema(), primary_key=["id"], options={"bucket": "2"})
        for state in _grow(on, table, base, _QUICK_DELTAS if bench.quick else _DELTAS):
            for columns in (Q1_COLUMNS, tuple(HASHED)):
                yield from _measure_full(bench, state, columns)
            for label, first, last in (("point", base // 3, base // 3), ("range of 1000", base // 2, base // 2 + 999)):
                yield _measure_lookup(bench, state, label, first, last)


def measure_committed(bench: Bench) -> Iterator[Figure]:
    """The same where each commit looked its old rows up, so that which rows are superseded is committed."""
    options = {"bucket": "2", "changelog-producer": "lookup"}
    with open_spark(bench) as on:
        table = on.catalog.create_table("b.c", q1_schema(), primary_key=["id"], options=options)
        for state in _grow(on, table, bench.scaled(BASE_ROWS), (5, 20)):
            for columns in (Q1_COLUMNS, tuple(HASHED)):
                everything = columns == Q1_COLUMNS
                label = f"read, k={state.deltas}, {'all' if everything else len(columns)} columns, positions committed"
                target = (_COMMITTED_TARGETS if everything else _NARROW_TARGETS)[state.deltas]
                variants = {label: (_ours(state, columns, cold=True), target)}
                yield from compare_variants(variants, _reference(state, columns), pairs=bench.pairs, warm_ups=WARM_UPS)


def measure_deletion_vectors(bench: Bench) -> Iterator[Figure]:
    """Reads of a table of two deltas before and after it is marked."""
    with open_spark(bench) as on:
        table = on.catalog.create_table("b.m", q1_schema(), primary_key=["id"], options={"bucket": "2"})
        (state,) = _grow(on, table, bench.scaled(VECTORED_ROWS), (DELTAS,))
        yield from _measure_cold(bench, state, "not marked")
        yield absolute(f"mark, k={DELTAS}, over gRPC", "s", [build_vectors(on.catalog, table)])
        yield from _measure_cold(bench, state, "marked")


def measure_format(bench: Bench) -> Iterator[Figure]:
    """`format("lakelog")` and a table's name in SQL against `read_table`, on the same rows, with and without deltas."""
    base = bench.scaled(FORMAT_ROWS)
    with open_spark(bench) as on:
        table = on.catalog.create_table("b.f", q1_schema(), primary_key=["id"], options={"bucket": "2"})
        for state in _grow(on, table, base, (0, 5)):
            for columns in (Q1_COLUMNS, tuple(HASHED)):
                named = "all" if columns == Q1_COLUMNS else len(columns)
                label = f"k={state.deltas}, {named} columns"
                variants: dict[str, tuple[Work, float | None]] = {
                    f"format('lakelog'), {label}": (_by_format(state, columns), _FORMAT_TARGET),
                }
                yield from compare_variants(variants, _ours(state, columns), pairs=bench.pairs, warm_ups=WARM_UPS)


def _by_format(state: _State, columns: tuple[str, ...]) -> Work:
    spark, aggregates = state.on.spark, digest_sql(columns)
    expected = state.model.digest(columns)

    def read() -> Callable[[], Hashable]:
        rows = spark.read.format("lakelog").option("table", state.table.name).load()
        found = tuple(rows.selectExpr(*aggregates).collect()[0])
        return lambda: check_equal(f"format('lakelog') with k={state.deltas}", found, expected)

    return read


def _measure_cold(bench: Bench, state: _State, what: str) -> Iterator[Figure]:
    for columns in (Q1_COLUMNS, tuple(HASHED)):
        named = "all" if columns == Q1_COLUMNS else len(columns)
        variants: dict[str, tuple[Work, float | None]] = {
            f"read, k={state.deltas}, {named} columns, Spark, {what}": (_ours(state, columns, cold=True), None)
        }
        yield from compare_variants(variants, _reference(state, columns), pairs=bench.pairs, warm_ups=WARM_UPS)


def _grow(on: SparkBench, table: Table, base: int, steps: Sequence[int]) -> Iterator[_State]:
    """A base, then as many deltas of a tenth of it as each step says."""
    model = Q1Model(base)
    _upsert(table, model, np.arange(base), 1)
    done = 0
    for deltas in steps:
        for number in range(done, deltas):
            _upsert(table, model, np.random.default_rng(number).permutation(base)[: base // 10], number + 2)
        done = deltas
        state = _State(on, table, model, deltas)
        _check_rows(state)
        yield state


def _upsert(table: Table, model: Q1Model, ids: np.ndarray, seed: int) -> None:
    data = q1(ids, seed)
    table.upsert(data)
    model.apply(data)


def _check_rows(state: _State) -> None:
    """Whole rows, once: the digests of the runs look at each column by itself."""
    found = lakelog.spark.read_table(state.on.spark, state.table.name, columns=HASHED).toArrow()
    check_rows(f"rows with k={state.deltas}", found, state.model, tuple(HASHED))


def _measure_full(bench: Bench, state: _State, columns: tuple[str, ...]) -> list[Figure]:
    k, everything = state.deltas, columns == Q1_COLUMNS
    label = f"read, k={k}, {'all' if everything else len(columns)} columns, Spark"
    cached_target = _ALL_CACHED_TARGET if everything and k else _NARROW_TARGETS.get(k)
    variants = {f"{label}, cached": (_ours(state, columns), cached_target)}
    target = (_ALL_TARGETS if everything else _NARROW_TARGETS).get(k)
    if k == 0:
        # Nothing overlaps, so that there is nothing to find.
        variants = {label: (_ours(state, columns), target)}
    else:
        variants[f"{label}, cold"] = (_ours(state, columns, cold=True), target)
    return compare_variants(variants, _reference(state, columns), pairs=bench.pairs, warm_ups=WARM_UPS)


def _measure_lookup(bench: Bench, state: _State, label: str, first: int, last: int) -> Figure:
    return compare(
        f"{label}, k={state.deltas}, Spark",
        _ours(state, Q1_COLUMNS, (first, last)),
        _reference(state, Q1_COLUMNS, (first, last)),
        pairs=bench.pairs,
        warm_ups=WARM_UPS,
        target=_LOOKUP_TARGET,
    )


def _ours(
    state: _State, columns: tuple[str, ...], bounds: tuple[int, int] | None = None, *, cold: bool = False
) -> Work:
    spark, aggregates = state.on.spark, digest_sql(columns)
    expected = state.model.digest(columns, *(bounds or ()))
    installation = installation_of(spark)

    def read() -> Callable[[], Hashable]:
        if cold:
            installation.deletion_vectors.clear()
            installation.frames.clear()
        rows = lakelog.spark.read_table(spark, state.table.name, filter=None if bounds is None else _condition(bounds))
        found = tuple(rows.selectExpr(*aggregates).collect()[0])
        return lambda: check_equal(f"read_table with k={state.deltas}", found, expected)

    return read


def _reference(state: _State, columns: tuple[str, ...], bounds: tuple[int, int] | None = None) -> Work:
    paths, aggregates = state.paths(), digest_sql(columns)
    expected = state.model.versions(*(bounds or ()))

    def read() -> Callable[[], Hashable]:
        rows = state.on.read(*paths)
        if bounds is not None:
            rows = rows.where(_condition(bounds))
        found = rows.selectExpr(*aggregates).collect()[0]
        return lambda: check_equal(f"spark.read.parquet with k={state.deltas}", found[0], expected)

    return read


def _condition(bounds: tuple[int, int]) -> str:
    first, last = bounds
    return f"id = {first}" if first == last else f"id between {first} and {last}"
