"""Streams out of a table, run by Spark: batches, checkpoints, triggers, errors (semantics 5)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.integration.spark.spark_tables import MakeTable
from tests.support.spark.stream_query import Row, StreamQuery

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
WAIT_S = 90.0


def data(*rows: tuple[int, str | None]) -> pa.Table:
    return pa.table({"k": [k for k, _ in rows], "v": [v for _, v in rows]}, schema=SCHEMA)


def emitted(rows: list[Row]) -> list[tuple[Any, ...]]:
    """The rows by snapshot and key, `-U` before `+U`."""
    order = ["-D", "-U", "+U", "+I"]
    rows = sorted(rows, key=lambda row: (row["_snapshot_id"], row["k"], order.index(row["_row_kind"])))
    return [(row["_snapshot_id"], row["_row_kind"], row["k"], row["v"]) for row in rows]


@pytest.fixture
def keyed(make_table: MakeTable) -> Table:
    """Snapshots: two rows, one changed, one deleted."""
    table = make_table(SCHEMA, ("k",), options={"bucket": "2"})
    table.upsert(data((1, "a"), (2, "b")))
    table.upsert(data((2, "B")))
    table.delete(pa.table({"k": [1]}))
    return table


def test_a_stream_goes_on_from_its_checkpoint(spark: SparkSession, keyed: Table, tmp_path: Path) -> None:
    options = {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "1", "maxRowsPerTrigger": "1"}
    query = StreamQuery(spark, keyed.name, tmp_path, metadata_columns="_snapshot_id", **options)
    assert query.load().columns == ["k", "v", "_snapshot_id", "_row_kind"]
    first = query.run()
    assert [emitted(batch) for batch in first] == [
        # The rows it begins with, bucket by bucket.
        [(1, "+I", 2, "b")],
        [(1, "+I", 1, "a")],
        [(2, "-U", 2, "b"), (2, "+U", 2, "B")],
        [(3, "-D", 1, "a")],
    ]
    # A batch whose end was forgotten comes again as it was, before what is new.
    query.forget_last_batch()
    keyed.upsert(data((1, "again"), (2, "B")))
    second = query.run()
    assert [emitted(batch) for batch in second] == [emitted(first[-1]), [(4, "+I", 1, "again")]]
    assert query.run() == []
    assert [offset["snapshot"] for offset in query.offsets()] == [1, 1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["latest-full", "latest", "from-snapshot"])
def test_the_first_batch_is_repeated_as_it_was(spark: SparkSession, keyed: Table, tmp_path: Path, mode: str) -> None:
    """Spark keeps no offset in front of it, and asks anew where the stream begins."""
    options = {"scan.mode": mode} | ({"scan.snapshot-id": "3"} if mode == "from-snapshot" else {})
    query = StreamQuery(spark, keyed.name, tmp_path, metadata_columns="_snapshot_id", **options)
    first = query.run()
    query.forget_last_batch()
    keyed.upsert(data((1, "again")))
    second = query.run()
    assert [emitted(batch) for batch in second] == [*map(emitted, first), [(4, "+I", 1, "again")]]


def test_two_streams_at_once_show_what_comes(spark: SparkSession, make_table: MakeTable, tmp_path: Path) -> None:
    keyed, appended = make_table(SCHEMA, ("k",), options={"bucket": "2"}), make_table(SCHEMA)
    tables = (keyed, appended)
    queries = [StreamQuery(spark, table.name, tmp_path / table.name) for table in tables]
    running = [query.start(processingTime="0 seconds") for query in queries]
    try:
        for number in range(3):
            for table in tables:
                table.append(data((1, str(number))))
            _wait_until(queries, [1 + 2 * number, 1 + number])
    finally:
        for each in running:
            each.stop()
    shown = [[row for batch in query.batches for row in batch] for query in queries]
    assert [(row["_row_kind"], row["v"]) for row in shown[0]] == [
        ("+I", "0"),
        ("-U", "0"),
        ("+U", "1"),
        ("-U", "1"),
        ("+U", "2"),
    ]
    assert shown[1] == [{"k": 1, "v": str(number)} for number in range(3)]


def test_a_checkpoint_of_a_table_that_was_recreated(
    spark: SparkSession, keyed: Table, catalog: Catalog, tmp_path: Path
) -> None:
    query = StreamQuery(spark, keyed.name, tmp_path, scan__mode="latest")
    query.run()
    catalog.drop_table(keyed.name)
    catalog.create_table(keyed.name, schema=SCHEMA, primary_key=["k"])
    with pytest.raises(StreamingQueryException) as caught:
        query.run()
    text = str(caught.value)
    assert "HistoryDiverged" in text
    assert f"The checkpoint is of the table {keyed.uuid}, but {keyed.name} is" in text
    assert _sentence(text).endswith("or the table that the checkpoint is of.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scan.snapshot-id": "1", "scan.timestamp-millis": "1"}, "both say where to begin. Give one of them."),
        ({"columns": "w"}, "has no column 'w'; near it are k, v. Upper and lower case count."),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_loaded(
    spark: SparkSession, keyed: Table, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        StreamQuery(spark, keyed.name, tmp_path, **options).load()
    assert _sentence(str(caught.value)).endswith(message)


def _sentence(text: str) -> str:
    """The last line of the error, before the query that Spark adds."""
    lines = text.partition("JVM stacktrace")[0].partition("=== Streaming Query ===")[0].splitlines()
    emitted = [line.strip() for line in lines if line.strip() and not line.strip().startswith("SQLSTATE")]
    return emitted[-1]


def _wait_until(queries: list[StreamQuery], counts: list[int]) -> None:
    """Waits until each query has shown so many rows."""
    end = time.monotonic() + WAIT_S
    while [sum(map(len, query.batches)) for query in queries] != counts:
        assert time.monotonic() < end, f"only {[query.batches for query in queries]} came"
        time.sleep(0.05)
