"""What Spark's writes bring to the external log: each record once, of each key in the order of arrival."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.format.rowkind import ROW_KIND_COLUMN, RowKind
from lakelog.reads.log_plan import plan_log
from lakelog.spark.installation import installation_of
from lakelog.table import Table
from tests.integration.sdk.keyed import rows
from tests.integration.spark.conftest import MakeTable
from tests.integration.spark.spark_changelogs import Write, by_format, by_function, frame_of, make

FIRST = ("+I 1|10|100", "+I 1|20|200", "+U 1|10|101", "-D 2|10|-")
SECOND = ("-D 1|20|-", "+I 2|30|5", "+U 1|10|102")


def logged(spark: SparkSession, table: Table, snapshot_id: int) -> dict[str, list[str]]:
    """What came of each key, in the order of the log."""
    plan = plan_log(installation_of(spark).metastore, table.uuid, snapshot_id - 1, snapshot_id)
    root = Path(unquote(table.location.removeprefix("file://")))
    found: dict[str, list[str]] = {}
    for piece in plan.pieces:
        for file in piece.files:
            for row in pq.read_table(root / file.path, partitioning=None).to_pylist():
                kind = RowKind(row.get(ROW_KIND_COLUMN) or 0).text
                value = "-" if row["v"] is None else row["v"]
                found.setdefault(f"{row['pt']}|{row['k']}", []).append(f"{kind} {value}")
    return found


@pytest.mark.parametrize(
    ("producer", "write"), [("none", by_function), ("none", by_format), ("input", by_format), ("lookup", by_function)]
)
def test_each_record_is_in_the_log_once(
    spark: SparkSession, make_table: MakeTable, write: Write, producer: str
) -> None:
    table = make(make_table, producer, log__system="kafka")
    write(frame_of(spark, FIRST, SECOND), table)
    assert logged(spark, table, 1) == {
        "1|10": ["+I 100", "+U 101", "+U 102"],
        "1|20": ["+I 200", "-D -"],
        "2|10": ["-D -"],
        "2|30": ["+I 5"],
    }


def test_a_stream_brings_the_records_of_its_batches(spark: SparkSession, make_table: MakeTable, tmp_path: Path) -> None:
    source = make(make_table, "none")
    table = make(make_table, "none", log__system="kafka")
    source.write(rows(*FIRST))
    frame = spark.readStream.format("lakelog").option("table", source.name).load()
    sink = frame.writeStream.format("lakelog").option("table", table.name)
    query = sink.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert logged(spark, table, 1) == {"1|10": ["+I 101"], "1|20": ["+I 200"]}


def test_an_overwrite_brings_nothing(spark: SparkSession, make_table: MakeTable) -> None:
    table = make(make_table, "none", log__system="kafka")
    lakelog.spark.write(frame_of(spark, FIRST[:2]), table.name, mode="overwrite")
    assert logged(spark, table, 1) == {}
