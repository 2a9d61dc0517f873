"""How many rows a row group should have: what files of several sizes cost to write, to scan and to look into.

python -m bench.spark_paths.row_groups --rows 4000000 --deltas 5 --sizes 16384 32768 65536 131072 --turns 5

Each size gets a table of its own with the same rows. All sizes are measured in turn (A B C D A B C D ...); the median
is shown, and CPU seconds of the process tree behind it.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds

from bench.expected import Q1_COLUMNS, digest_sql
from bench.measure import sample
from bench.sdk import HASHED, data_paths, open_catalog
from bench.shapes import q1, q1_schema
from lakelog.sdk.tables.table import Table
from lakelog.storage.parquet import writer as parquet_writer

from .measure import session
from .rows import DDL

Work = Callable[[], int]
_WARM_UPS = 2


@contextlib.contextmanager
def _row_groups_of(rows: int) -> Iterator[None]:
    """Writes have row groups of so many rows meanwhile."""
    before = parquet_writer.ROW_GROUP_ROWS
    parquet_writer.ROW_GROUP_ROWS = rows  # type: ignore[misc]
    try:
        yield
    finally:
        parquet_writer.ROW_GROUP_ROWS = before  # type: ignore[misc]


def _fill(table: Table, size: int, rows: int, deltas: int) -> float:
    """Writes base and deltas; returns how long the base took."""
    with _row_groups_of(size):
        base = q1(np.arange(rows), 1)
        begin = time.perf_counter()
        table.upsert(base)
        taken_s = time.perf_counter() - begin
        for number in range(deltas):
            ids = np.random.default_rng(number).permutation(rows)[: rows // 10]
            table.upsert(q1(ids, number + 2))
    return taken_s


def _sdk_works(table: Table, rows: int) -> dict[str, Work]:
    paths = data_paths(table)
    first, last = rows // 2, rows // 2 + 999
    return {
        "SDK, merged, all columns": lambda: table.scan().to_arrow().num_rows,
        "SDK, merged, 3 columns": lambda: table.scan(HASHED).to_arrow().num_rows,
        "SDK, merged, range of 1000": lambda: table.scan(filter=f"id between {first} and {last}").to_arrow().num_rows,
        "SDK, merged, point": lambda: table.scan(filter=f"id = {rows // 3}").to_arrow().num_rows,
        "pyarrow, all columns": lambda: ds.dataset(paths).to_table().num_rows,
        "pyarrow, 3 columns": lambda: ds.dataset(paths).to_table(HASHED).num_rows,
    }


def _spark_works(table: Table, rows: int) -> dict[str, Work]:
    spark, paths = session(), data_paths(table)

    def read(columns: tuple[str, ...], condition: str) -> Work:
        found = spark.read.schema(DDL).parquet(*paths)
        return lambda: found.where(condition).selectExpr(*digest_sql(columns)).collect()[0][0]

    return {
        "Spark, all columns": read(Q1_COLUMNS, "true"),
        "Spark, 3 columns": read(tuple(HASHED), "true"),
        "Spark, range of 1000": read(Q1_COLUMNS, f"id between {rows // 2} and {rows // 2 + 999}"),
    }


def _counted(work: Work) -> Work:
    """A row group's size must not change how many rows are found; zero would mean that nothing was measured."""

    def run() -> int:
        rows = work()
        assert rows
        return rows

    return run


def main() -> None:
    """Measures all sizes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--deltas", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[16_384, 32_768, 65_536, 131_072])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/lakelog-row-groups"))
    args = parser.parse_args()
    shutil.rmtree(args.folder, ignore_errors=True)
    if not args.no_spark:
        # Java comes first: nothing else runs in this process yet.
        session()
    with contextlib.ExitStack() as stack:
        works: dict[str, dict[int, Work]] = {}
        written: dict[int, list[float]] = {size: [] for size in args.sizes}
        for turn in range(3):
            for size in args.sizes:
                folder = args.folder / f"{size}-{turn}"
                catalog = stack.enter_context(open_catalog(folder))
                table = catalog.create_table("b.t", q1_schema(), primary_key=["id"], options={"bucket": "2"})
                written[size].append(_fill(table, size, args.rows, args.deltas if turn == 0 else 0))
                if turn:
                    shutil.rmtree(folder)
                    continue
                mib = sum(Path(path).stat().st_size for path in data_paths(table)) / 2**20
                print(f"{size:>8} rows a group: {mib:.1f} MiB", flush=True)
                found = _sdk_works(table, args.rows) | ({} if args.no_spark else _spark_works(table, args.rows))
                for name, work in found.items():
                    works.setdefault(name, {})[size] = work
        print(f"{'':32}" + "".join(f"{size:>18}" for size in args.sizes))
        print(f"{'upsert of the base, s':32}" + "".join(f"{min(written[size]):>18.3f}" for size in args.sizes))
        for name, by_size in works.items():
            turns = range(_WARM_UPS + args.turns)
            runs = [{size: sample(_counted(work))[0] for size, work in by_size.items()} for _ in turns][_WARM_UPS:]
            cells = [
                f"{statistics.median(run[size].wall_s for run in runs):.3f} "
                f"({statistics.median(run[size].cpu_s for run in runs):.2f})"
                for size in args.sizes
            ]
            print(f"{name:32}" + "".join(f"{cell:>18}" for cell in cells), flush=True)
    shutil.rmtree(args.folder)


if __name__ == "__main__":
    main()
