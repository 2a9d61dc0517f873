"""W5: upserts that bring a `lookup` changelog, against the same without one; what both parts share, and the SDK's.

Four of five rows of a commit have a key that is there. There is a table without a changelog, one whose local copies
stay (warm), and one whose copies are gone before each commit (cold). Each changelog is compared with a model of the
table: its new rows with what was written, its old ones with what was there.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.context import Bench
from bench.expected import Q1Model, check_equal
from bench.measure import Figure, Work, compare_variants
from bench.sdk import BASE_ROWS, HASHED, open_catalog
from bench.shapes import order_free_hash, q1, q1_schema
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.lookup.copy_cache import find_cache_folder

NONE, WARM, COLD = "none", "warm", "cold"
_TARGETS: Final = {WARM: 0.5, COLD: 0.3}
CASES: Final = ((20_000, 10, 3), (200_000, 3, 1))
"""Rows of a commit, commits of a run, those of a quick run."""
_UPDATED: Final = 0.8
_BUCKETS: Final = 2

Given = TypeVar("Given")
"""A batch as a part wants it."""


class Upserted(Generic[Given]):
    """A table that takes batches one after the other, and the model of what it must hold and tell.

    Args:
        table: The table; it has the base rows.
        model: Of as many keys as there will ever be; it has the base rows.
        upsert: Writes a batch.
        batches: What is to be written, and the rows of it, each key once.
        per_run: Commits of a run.
        before: Done before each commit.
    """

    def __init__(
        self,
        table: Table,
        model: Q1Model,
        upsert: Callable[[Table, Given], object],
        batches: Iterator[tuple[Given, pa.Table]],
        per_run: int,
        before: Callable[[Table], None],
    ) -> None:
        self._table = table
        self._model = model
        self._upsert = upsert
        self._batches = batches
        self._per_run = per_run
        self._before = before
        self._snapshot_id = 1

    def run(self) -> Callable[[], Hashable]:
        """A run; what it returns checks it, with the clock stopped, and answers how many rows were written."""
        done = []
        for _ in range(self._per_run):
            given, rows = next(self._batches)
            self._before(self._table)
            self._upsert(self._table, given)
            done.append(rows)
        return lambda: sum(map(self._check, done))

    def check_rows(self) -> None:
        """Compares all rows with the model."""
        expected = self._model.rows(tuple(HASHED)).slice(0, self._model.present)
        check_equal("rows in the end", _hash(self._table.scan(HASHED).to_arrow()), _hash(expected))

    def _check(self, rows: pa.Table) -> int:
        """What the next snapshot tells: by a changelog, or found by the reader where there is none."""
        ids = rows.column("id").to_numpy()
        old = self._model.rows(tuple(HASHED)).take(pa.array(ids[self._model.has(ids)]))
        self._model.apply(rows)
        self._snapshot_id += 1
        found = self._table.changes(self._snapshot_id - 1, self._snapshot_id).to_arrow()
        is_old = pc.equal(found.column(ROW_KIND_COLUMN), "-U")
        check_equal("old rows", _hash(found.filter(is_old).select(HASHED)), _hash(old))
        check_equal("new rows", _hash(found.filter(pc.invert(is_old)).select(HASHED)), _hash(rows.select(HASHED)))
        return rows.num_rows


def measure_sdk(bench: Bench) -> Iterator[Figure]:
    """Commits by the SDK, over a metastore in this process."""
    base = bench.scaled(BASE_ROWS)
    data = q1(np.arange(base), 1)
    for rows, full, quick in CASES:
        per_run = quick if bench.quick else full
        folder = bench.folder / f"w5-{rows}"
        batches = make_batches(base, rows, per_run * (bench.pairs + 1))
        with open_catalog(folder) as catalog:
            given = [(batch, batch) for batch in batches]
            label = f"{rows:,} rows, SDK ({per_run} a run)"
            yield from compare_tables(catalog, label, data, given, Table.upsert, per_run, bench.pairs, 1)
        shutil.rmtree(folder)


def compare_tables(
    catalog: Catalog,
    label: str,
    data: pa.Table,
    batches: Sequence[tuple[Given, pa.Table]],
    upsert: Callable[[Table, Given], object],
    per_run: int,
    pairs: int,
    warm_ups: int,
) -> list[Figure]:
    """Measures a table with a changelog, warm and cold, against one without, each filled with the same base rows."""
    keys = int(max(pc.max(rows.column("id")).as_py() for _, rows in batches)) + 1
    tables: dict[str, Table] = {}
    runs: dict[str, Upserted[Given]] = {}
    forget = functools.partial(forget_copies, catalog, iter(range(1, 1 << 30)))
    for kind in (NONE, WARM, COLD):
        options = {"bucket": str(_BUCKETS), "changelog-producer": "none" if kind == NONE else "lookup"}
        name = f"b.{kind}_{len(batches)}_{batches[0][1].num_rows}"
        tables[kind] = catalog.create_table(name, q1_schema(), primary_key=["id"], options=options)
        tables[kind].upsert(data)
        model = Q1Model(keys)
        model.apply(data)
        before = forget if kind == COLD else _do_nothing
        runs[kind] = Upserted(tables[kind], model, upsert, iter(batches), per_run, before)
    variants: Mapping[str, tuple[Work, float | None]] = {
        f"upserts with their changelog, {kind}, {label}": (runs[kind].run, target) for kind, target in _TARGETS.items()
    }
    figures = compare_variants(variants, runs[NONE].run, pairs=pairs, warm_ups=warm_ups)
    for kind, table in tables.items():
        runs[kind].check_rows()
        shutil.rmtree(_copies_of(catalog, table), ignore_errors=True)
        catalog.drop_table(table.name)
    return figures


def make_batches(base: int, rows: int, count: int) -> list[pa.Table]:
    """Batches in which four of five keys are below `base`, and the others follow each other from there on."""
    random = np.random.default_rng(5)
    new = rows - int(rows * _UPDATED)
    payloads = [q1(np.arange(rows), seed) for seed in range(4)]
    batches = []
    for number in range(count):
        updated = random.choice(base, rows - new, replace=False)
        ids = random.permutation(np.concatenate([updated, base + number * new + np.arange(new)]))
        payload = payloads[number % len(payloads)]
        # Else a row may now and then replace its equal, which a reader of a table without a changelog leaves out.
        fresh = pc.add(payload.column("v0"), number)
        payload = payload.set_column(payload.schema.get_field_index("v0"), payload.schema.field("v0"), fresh)
        batches.append(payload.set_column(0, payload.schema.field("id"), pa.array(ids)))
    return batches


def forget_copies(catalog: Catalog, turns: Iterator[int], table: Table) -> None:
    """Takes a table's local copies away, also from processes that have them open.

    SUBTLE: other limits make each process begin its cache of the table anew. It takes milliseconds, which count.
    """
    table.alter(set={"lookup.cache-file-retention": f"{7200 + next(turns)} s"})
    shutil.rmtree(_copies_of(catalog, table), ignore_errors=True)


def _copies_of(catalog: Catalog, table: Table) -> Path:
    return find_cache_folder(catalog.context.caches.folder) / table.uuid


def _do_nothing(table: Table) -> None:
    """Before a commit of a table whose copies stay."""


def _hash(rows: pa.Table) -> Hashable:
    return rows.num_rows, order_free_hash(rows)
