"""W6: full compactions that tell what changed since the one before, against full compactions that do not (W4).

As in W4 nothing is committed. The full compaction before left the large run; the overlapping ones came since.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.compaction import ATTEMPT, DELTAS, Bucket, check_rewritten, each_bucket, make_runs, table_folder
from bench.context import Bench
from bench.expected import Q1Model, check_equal
from bench.measure import Figure, compare
from bench.sdk import BASE_ROWS, HASHED, open_catalog
from bench.shapes import order_free_hash
from lakelog.format.tables.files import DataFile
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind
from lakelog.options.values import TableOptions
from lakelog.sdk.tables.table import Table
from lakelog.storage.rewrite.full import FullRewrite, rewrite_fully
from lakelog.storage.rewrite.runs import rewrite_runs

_DEDUPLICATE = {"changelog-producer.row-deduplicate": "true"}


def measure_changelog(bench: Bench) -> Iterator[Figure]:
    """All runs of Q1 rows, 4 M and 10 x 400 k whose keys overlap, with the changelog of the latter."""
    base = bench.scaled(BASE_ROWS)
    cases: tuple[tuple[str, dict[str, str], float], ...] = (("", {}, 1.35), (", row-deduplicate", _DEDUPLICATE, 1.5))
    for label, options, most in cases:
        folder = bench.folder / f"w6{len(options)}"
        with open_catalog(folder) as catalog:
            model = Q1Model(base)
            table = make_runs(catalog, "b.t", model)
            yield compare(
                f"full compaction with its changelog{label}, {base:,} + {DELTAS} x {base // 10:,} rows",
                _make_ours(table, model, TableOptions(options)),
                _make_reference(table, model),
                pairs=bench.pairs,
                target=round(1 / most, 3),
            )


def _make_ours(table: Table, model: Q1Model, options: TableOptions) -> Callable[[], Hashable]:
    folder = table_folder(table)

    def emit(bucket: Bucket) -> FullRewrite:
        # The oldest file is what the compaction before left.
        before = {min(bucket.rewrite.inputs, key=lambda file: file.order_snapshot).path}
        return rewrite_fully(bucket.store, bucket.schema, options, ATTEMPT, bucket.rewrite, before)

    def ours() -> Callable[[], Hashable]:
        made = each_bucket(table, emit)

        def check() -> bool:
            _check_changelog(folder, [file for each in made for file in each.changelog_files], model)
            return check_rewritten(folder, [file for each in made for file in each.files], model)

        return check

    return ours


def _make_reference(table: Table, model: Q1Model) -> Callable[[], Hashable]:
    folder = table_folder(table)

    def rewrite(bucket: Bucket) -> tuple[DataFile, ...]:
        return rewrite_runs(bucket.store, bucket.schema, bucket.options, ATTEMPT, bucket.rewrite)

    def plain() -> Callable[[], Hashable]:
        made = each_bucket(table, rewrite)
        return lambda: check_rewritten(folder, [file for files in made for file in files], model)

    return plain


def _check_changelog(folder: Path, files: list[DataFile], model: Q1Model) -> None:
    """An old and a new row of each key that was written twice or more; the new ones are the model's."""
    paths = [folder / file.path for file in files]
    found = pa.concat_tables([pq.read_table(path, columns=[*HASHED, ROW_KIND_COLUMN]) for path in paths])
    for path in paths:
        path.unlink()
    rows = model.rows(tuple(HASHED))
    again = rows.filter(pa.array(model.versions_of(rows.column("id").to_numpy()) > 1))
    kinds = found.column(ROW_KIND_COLUMN)
    after = found.filter(pc.equal(kinds, RowKind.UPDATE_AFTER.value)).drop_columns(ROW_KIND_COLUMN)
    before = pc.sum(pc.equal(kinds, RowKind.UPDATE_BEFORE.value)).as_py()
    check_equal(
        "changelog of a full compaction",
        (found.num_rows, before, order_free_hash(after)),
        (2 * again.num_rows, again.num_rows, order_free_hash(again)),
    )
