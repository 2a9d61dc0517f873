"""A user's program as a type checker sees it: `./run check mypy` reads it, and a test runs it.

What is marked as an error must be one: an ignore that is not needed is an error itself.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import assert_type

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

import lakelog


def run(catalog: lakelog.Catalog) -> int:
    """Writes by all that may be written, reads by all that may be asked."""
    table = catalog.create_table("shop.typed", pa.schema([("n", pa.int64()), ("t", pa.string())]))
    assert_type(table, lakelog.Table)

    def generate() -> Iterator[dict[str, object]]:
        yield {"n": 5, "t": "e"}

    rows: list[lakelog.Rows] = [
        pa.table({"n": [1], "t": ["a"]}),
        pd.DataFrame({"n": [2], "t": ["b"]}),
        pl.DataFrame({"n": [3], "t": ["c"]}),
        [{"n": 4, "t": "d"}],
        generate(),
        table,
    ]
    for each in rows:
        assert_type(table.append(each), lakelog.WriteResult)
    day: lakelog.TimeLike = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    params: lakelog.Parameters = {"low": 1, "names": ["a", "b"], "price": Decimal("1.5"), "day": dt.date(2024, 5, 1)}
    condition = "n > :low OR t IN :names OR :price > 2 OR DATE '2024-05-02' < :day"
    scan = table.scan(filter=condition, params=params, timestamp=day)
    assert_type(scan, lakelog.Scan)
    assert_type(table.count(pc.field("n") > 0), int)
    assert_type(table.to_pandas(), pd.DataFrame)
    stream = table.subscribe(filter="n > :low", params={"low": 0})
    assert_type(stream, lakelog.Subscription)
    with stream:
        for snapshot in stream.snapshots(timeout=0.1):
            assert_type(snapshot, lakelog.Snapshot)
    result = catalog.sql("SHOW TABLES IN shop")
    assert_type(result, lakelog.SqlResult)
    return table.count()


def misuse(table: lakelog.Table) -> None:
    """Nothing of this may pass; never run."""
    table.append("rows")  # type: ignore[arg-type]
    table.append({"n": 1})  # type: ignore[dict-item]
    table.append(5)  # type: ignore[arg-type]
    table.scan(filter="n = :n", params={"n": object()})  # type: ignore[dict-item]
    table.scan(timestamp=dt.timedelta(1))  # type: ignore[arg-type]
    table.scan(options={"scan.snapshot-id": 1.5})  # type: ignore[dict-item]
    table.compact(partitions=[{"day": object()}])  # type: ignore[dict-item]
    table.alter(set={"bucket": None})  # type: ignore[dict-item]
