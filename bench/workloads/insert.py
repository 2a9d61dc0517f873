"""INSERT of BENCH: `lakelog insert` of folders of files, from the start of its process to its end."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

import lakelog
from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from lakelog.sdk.catalog import Catalog
from lakelog.testing import embedded_stack

TITLE = "lakelog insert of folders of files"
_PEAK: Final = re.compile(r"VmHWM:\s+(\d+) kB")
_SCHEMA: Final = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("k", pa.int64()), ("v", pa.float64()), ("s", pa.string())]
)


@dataclass(frozen=True)
class _Case:
    """A folder, and the table that it goes into."""

    name: str
    files: int
    rows: int
    write: Callable[[pa.Table, Path], None]
    keyed: bool = False


def _to_csv(rows: pa.Table, path: Path) -> None:
    pc.write_csv(rows, path.with_suffix(".csv"))


def _to_parquet(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path.with_suffix(".parquet"))


_CASES: Final = (
    _Case("CSV", 8, 4_000_000, _to_csv),
    _Case("Parquet", 8, 4_000_000, _to_parquet),
    _Case("Parquet, keyed, 4 buckets", 8, 4_000_000, _to_parquet, keyed=True),
    _Case("small CSV files", 500, 150_000, _to_csv),
)


def run(bench: Bench) -> Iterator[Figure]:
    """Each case in a process of its own; rows and bytes a second, and its peak."""
    with embedded_stack(bench.folder / "stack") as stack:
        catalog = lakelog.connect(stack.target)
        catalog.create_database("b")
        for number, case in enumerate(_CASES):
            rows = bench.scaled(case.rows)
            folder = bench.folder / f"in{number}"
            size = _make_files(folder, case, rows)
            runs = [
                _insert(catalog, stack.target, f"b.t{number}_{each}", folder, case, rows)
                for each in range(1 if bench.quick else min(bench.pairs, 3))
            ]
            yield absolute(f"{case.name}: rows", "rows/s", [rows / seconds for seconds, _ in runs])
            yield absolute(f"{case.name}: bytes of files", "MB/s", [size / seconds / 1e6 for seconds, _ in runs])
            yield absolute(f"{case.name}: peak of the process", "MiB", [peak for _, peak in runs])


def _make_files(folder: Path, case: _Case, rows: int) -> int:
    folder.mkdir()
    random = np.random.default_rng(7)
    for number, ids in enumerate(np.array_split(np.arange(rows), case.files)):
        columns = [ids, random.integers(0, 1000, len(ids)), random.random(len(ids)), ids % 977]
        arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
        case.write(pa.table(arrays, schema=_SCHEMA), folder / f"{number:04d}")
    return sum(file.stat().st_size for file in folder.iterdir())


def _insert(catalog: Catalog, target: str, name: str, folder: Path, case: _Case, rows: int) -> tuple[float, float]:
    """Seconds, and the peak of the process in MiB."""
    options = {"bucket": "4"} if case.keyed else {}
    table = catalog.create_table(name, _SCHEMA, primary_key=["id"] if case.keyed else (), options=options)
    command = [sys.executable, "-m", "lakelog", "-t", target, "insert", name, str(folder)]
    began_s, peak = time.perf_counter(), 0.0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        found = _PEAK.search(Path(f"/proc/{process.pid}/status").read_text())
        peak = max(peak, int(found[1]) / 1024 if found else 0.0)
        time.sleep(0.01)
    seconds = time.perf_counter() - began_s
    if process.returncode != 0 or table.scan().count() != rows:
        raise WrongAnswerError(f"{case.name}: exit code {process.returncode}, not {rows} rows")
    return seconds, peak
