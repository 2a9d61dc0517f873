"""Streams out of a table: where they begin, what they show, how they go on (SEMANTICS.md 5)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakelog.table import Table
from tests.integration.spark.conftest import MakeTable
from tests.integration.spark.stream_query import Row, StreamQuery

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
Told = tuple[Any, ...]


def data(*rows: tuple[int, str | None]) -> pa.Table:
    return pa.table({"k": [k for k, _ in rows], "v": [v for _, v in rows]}, schema=SCHEMA)


def told(rows: list[Row], *names: str) -> list[Told]:
    """The rows by snapshot and key, `-U` before `+U`."""
    names = names or ("_snapshot_id", "_row_kind", "k", "v")
    order = ["-D", "-U", "+U", "+I"]
    rows = sorted(rows, key=lambda row: (row.get("_snapshot_id", 0), row["k"], order.index(row.get("_row_kind", "+I"))))
    return [tuple(row[name] for name in names) for row in rows]


@pytest.fixture
def keyed(make_table: MakeTable) -> Table:
    """Snapshots: two rows, one changed, one deleted."""
    table = make_table(SCHEMA, ("k",), options={"bucket": "2"})
    table.upsert(data((1, "a"), (2, "b")))
    table.upsert(data((2, "B")))
    table.delete(pa.table({"k": [1]}))
    return table


ROWS = [(3, "+I", 2, "B")]
FIRST = [(1, "+I", 1, "a"), (1, "+I", 2, "b")]
SECOND = [(2, "-U", 2, "b"), (2, "+U", 2, "B")]
THIRD = [(3, "-D", 1, "a")]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, ROWS),
        ({"scan.mode": "compacted-full"}, ROWS),
        ({"scan.mode": "latest"}, []),
        ({"scan.snapshot-id": "1"}, FIRST + SECOND + THIRD),
        ({"scan.mode": "from-snapshot", "scan.snapshot-id": "3"}, THIRD),
        ({"scan.mode": "from-snapshot", "scan.snapshot-id": "5"}, []),
        (
            {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"},
            [(2, "+I", 1, "a"), (2, "+I", 2, "B"), *THIRD],
        ),
        ({"scan.timestamp-millis": "0"}, FIRST + SECOND + THIRD),
        ({"scan.mode": "from-file-creation-time", "scan.file-creation-time-millis": "0"}, ROWS),
        ({"scan.snapshot-id": "1", "scan.remove-normalize": "true"}, [*FIRST, (2, "+I", 2, "B"), (3, "-D", 1, None)]),
    ],
)
def test_modes(spark: SparkSession, keyed: Table, tmp_path: Path, options: dict[str, str], wanted: list[Told]) -> None:
    query = StreamQuery(spark, keyed.name, tmp_path, metadata_columns="_snapshot_id", **options)
    assert query.load().columns == ["k", "v", "_snapshot_id", "_row_kind"]
    assert told(query.rows()) == wanted
    # It goes on where it was, whatever the options say now.
    query.options["scan.mode"] = "default"
    keyed.upsert(data((1, "again"), (2, "B"), (3, "new")))
    if options.get("scan.snapshot-id") == "5":
        assert query.rows() == []
        keyed.upsert(data((9, "fifth")))
        assert told(query.rows()) == [(5, "+I", 9, "fifth")]
        return
    again = [(4, "+I", 1, "again"), (4, "+I", 3, "new")]
    if "scan.remove-normalize" in options:
        again.insert(1, (4, "+I", 2, "B"))
    assert told(query.rows()) == again
    assert query.rows() == []
