"""Seconds for `$files`, `$partitions` and `$buckets` of a million files, once the plan is there.

Usage: `python -m bench.kernels.system_tables`.
"""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from lakelog.context import Context
from lakelog.format.jobs.job import JobPage
from lakelog.format.keys.encoding import encode_key, encode_partition, encode_values
from lakelog.format.tables.files import FILE_SCHEMA, STATISTICS_FIELD, ColumnStatistics
from lakelog.format.tables.packed_statistics import encode_statistics
from lakelog.format.tables.plan import Plan, PlanRequest
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.system_tables.registry import parse_system_name
from lakelog.system_tables.scan import plan_system_scan

FILES = 1_000_000
PARTITIONS = 1000
COLUMNS = [("dt", pa.string()), ("id", pa.int64()), ("name", pa.string()), ("price", pa.float64())]
SCHEMA = TableSchema(0, assign_field_ids(pa.schema(COLUMNS)), ("dt", "id"), ("dt",))
INFO = TableInfo("a" * 32, TableName("bench", "t"), "file:///t/", SCHEMA, {"bucket": "16"}, 1, 0)

CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("files", {"columns": ["path", "bucket", "rows"]}),
    ("files", {"columns": ["path", "partition"]}),
    ("files", {"columns": ["min_key", "max_key"]}),
    ("files", {"columns": ["path"], "filter": "statistics.price.max > 2"}),
    ("files", {}),
    ("partitions", {}),
    ("buckets", {}),
)


def make_files() -> pa.Table:
    """A plan of a million files with statistics of four columns."""
    rng = np.random.default_rng(0)
    numbers = np.arange(FILES)
    keys = encode_values(pa.array(numbers))
    days = pa.array([encode_partition([pa.scalar(f"{day:04d}")]) for day in range(PARTITIONS)], pa.binary())
    values: dict[str, Any] = {field.name: np.zeros(FILES, np.int64) for field in FILE_SCHEMA}
    values |= {
        "file_id": numbers,
        "path": pa.array([f"data/{number:032x}/0.parquet" for number in range(FILES)]),
        "partition": days.take(pa.array(np.sort(rng.integers(0, PARTITIONS, FILES)))),
        "bucket": rng.integers(0, 16, FILES),
        "level": rng.integers(0, 6, FILES),
        "row_count": np.full(FILES, 1000),
        "min_key": keys,
        "max_key": keys,
        "added_snapshot": numbers,
        "deletion_vector_path": pa.nulls(FILES, pa.string()),
    }
    low, high = encode_key([pa.scalar(1.5)]), encode_key([pa.scalar(2.5)])
    texts = encode_key([pa.scalar("a text that is cut")])[:16]
    statistics = encode_statistics(
        [
            ColumnStatistics(1, 0, texts, texts),
            ColumnStatistics(2, 0, keys[0].as_py(), keys[-1].as_py()),
            ColumnStatistics(3, 1, texts, texts),
            ColumnStatistics(4, 2, low, high),
        ]
    )
    column = pa.repeat(pa.scalar(statistics, pa.binary()), FILES)
    return pa.table(values).cast(FILE_SCHEMA).append_column(STATISTICS_FIELD, column)


def main() -> None:
    files = make_files()

    def plan(request: PlanRequest) -> Plan:
        listed = files if request.with_statistics else files.select(FILE_SCHEMA.names)
        return Plan(INFO, SCHEMA, {0: SCHEMA}, None, files=listed)

    metastore = SimpleNamespace(plan=plan, list_job_page=lambda *_, **__: JobPage(()))
    context = cast(Context, SimpleNamespace(metastore=metastore))
    for kind, arguments in CASES:
        times = []
        for _ in range(3):
            began = time.perf_counter()
            rows = plan_system_scan(context, parse_system_name(f"bench.t${kind}"), INFO, **arguments).count()
            times.append(time.perf_counter() - began)
        shown = ", ".join(f"{each:.2f}" for each in sorted(times))
        print(f"{kind:10} {arguments!s:60} {rows:8} rows in {shown} s")


if __name__ == "__main__":
    main()
