"""W11: many small files of an append table put together, against reading them and writing one file; and never made.

The metastore runs in this process over its store in memory, and nothing is committed, so that each run of both sides
finds the same files. What is written is durable.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.compaction import ATTEMPT, table_folder
from bench.context import Bench
from bench.expected import check_equal
from bench.measure import Figure, absolute, compare
from bench.sdk import HASHED, data_paths, open_catalog, write_plain
from bench.shapes import order_free_hash, q1, q1_schema
from lakelog.format.tables.plan import PlanRequest
from lakelog.options.values import TableOptions
from lakelog.storage.parquet.live_file import to_live_files
from lakelog.storage.rewrite.append import FileRewrite, rewrite_files

FILES: Final = 2_000
ROWS_A_FILE: Final = 1_000
_ROW_BYTES: Final = 163


def measure_merge(bench: Bench) -> Iterator[Figure]:
    """2,000 files of 1,000 Q1 rows each; our time is to be 1.4 of the reference's at most."""
    files = bench.scaled(FILES)
    with open_catalog(bench.folder / "w11") as catalog:
        table = catalog.create_table("b.t", q1_schema())
        data = q1(np.arange(files * ROWS_A_FILE), 1)
        for start in range(0, data.num_rows, ROWS_A_FILE):
            table.append(data.slice(start, ROWS_A_FILE))
        expected = (data.num_rows, order_free_hash(data.select(HASHED)))
        plan = catalog.metastore.plan(PlanRequest(table.uuid))
        rewrite = FileRewrite("small", tuple(to_live_files(plan.files)))
        store, options, folder = catalog.open_store(plan.table), TableOptions(plan.table.options), table_folder(table)
        paths, numbers = data_paths(table), itertools.count()

        def ours() -> Callable[[], Hashable]:
            made = rewrite_files(store, plan.schema, options, ATTEMPT, rewrite)

            def check() -> bool:
                found = [folder / file.path for file in made]
                rows = pa.concat_tables([pq.read_table(path, columns=HASHED) for path in found])
                for path in found:
                    path.unlink()
                return check_equal("small files", (rows.num_rows, order_free_hash(rows)), expected)

            return check

        def plain() -> Callable[[], Hashable]:
            path = bench.folder / f"plain-{next(numbers)}.parquet"
            write_plain(pa.concat_tables([pq.read_table(each) for each in paths]), path)

            def check() -> bool:
                path.unlink()
                return True

            return check

        label = f"{files:,} files of {ROWS_A_FILE:,} rows put together"
        yield compare(label, ours, plain, pairs=bench.pairs, target=round(1 / 1.4, 3))


def measure_precommit(bench: Bench) -> Iterator[Figure]:
    """One commit of 2,000 flushes of about 1,000 rows: how many of its files are left where it merges them before."""
    rows = bench.scaled(FILES) * ROWS_A_FILE
    data = q1(np.arange(rows), 1)
    counts: dict[str, int] = {}
    with open_catalog(bench.folder / "w11-precommit") as catalog:
        for precommit in ("false", "true"):
            options = {"precommit-compact": precommit, "write-buffer-size": f"{_ROW_BYTES * ROWS_A_FILE // 1024} kb"}
            # With a key, since each flush is a run of its own then.
            table = catalog.create_table(f"b.{precommit}", q1_schema(), primary_key=["id"], options=options)
            table.append(iter(data.to_batches(max_chunksize=ROWS_A_FILE)))
            found = table.scan(HASHED).to_arrow()
            check_equal("rows", (rows, order_free_hash(data.select(HASHED))), (found.num_rows, order_free_hash(found)))
            counts[precommit] = table.files().num_rows
    left = 100 * counts["true"] / counts["false"]
    yield absolute(f"files left by precommit-compact of {counts['false']:,}", "%", [left], target=1)
