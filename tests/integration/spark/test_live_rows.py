"""Files less their superseded rows: few and many files, files of one size, files that are not what they should be."""

from __future__ import annotations

import random
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.spark import live_rows
from lakelog.spark.installation import installation_of
from lakelog.table import Table
from tests.integration.spark.conftest import MakeTable

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64()), ("s", pa.string())])


def rows_of(data: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in data.to_pylist())


def read_all_ways(spark: SparkSession, table: Table) -> list[list[tuple[object, ...]]]:
    source = spark.read.format("lakelog").option("table", table.name).load()
    return [rows_of(lakelog.spark.read_table(spark, table.name).toArrow()), rows_of(source.toArrow())]


def use(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes reads take one of the forms, whatever the number of files."""
    if form != "case":
        monkeypatch.setattr(live_rows, "_CASE_FILES", 0)
        monkeypatch.setattr(live_rows, "_SCAN_WORDS", 8)
    if form == "path":
        monkeypatch.setattr(live_rows, "_SIZE_SCANS", 0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("form", ["case", "join", "path"])
def test_random_histories(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, seed: int, form: str
) -> None:
    """The SDK writes, Spark reads: by sizes in a CASE or a join, by paths, and in scans of few bits."""
    use(form, monkeypatch)
    draw = random.Random(seed)
    options = {"bucket": str(draw.choice([1, 3])), "target-file-size": draw.choice(["1 kb", "1 mb"])}
    if seed == 2:
        options["sequence.field"] = "v"
    table = make_table(SCHEMA, ("k",), options=options)
    model: dict[int, tuple[int, int, str]] = {}
    for step in range(8):
        ks = draw.sample(range(300), draw.randint(1, 150))
        rows = [{"k": k, "v": draw.randint(0, 50), "s": f"{step}-{k}"} for k in ks]
        if step in (3, 6):
            table.delete(pa.Table.from_pylist([{"k": row["k"], "v": 50} for row in rows]))
            ended = [row["k"] for row in rows]
            model = {k: row for k, row in model.items() if k not in ended}
        else:
            table.upsert(pa.Table.from_pylist(rows, SCHEMA))
    expected = rows_of(table.scan().to_arrow())
    assert expected
    assert read_all_ways(spark, table) == [expected, expected]
    at_four = rows_of(table.scan(snapshot_id=4).to_arrow())
    assert rows_of(lakelog.spark.read_table(spark, table.name, snapshot_id=4).toArrow()) == at_four
    filtered = rows_of(table.scan(filter="k BETWEEN 50 AND 90 AND v > 10").to_arrow())
    condition = "k BETWEEN 50 AND 90 AND v > 10"
    assert rows_of(lakelog.spark.read_table(spark, table.name, filter=condition).toArrow()) == filtered


@pytest.mark.parametrize("copies", [2, 6])
def test_files_of_one_size(spark: SparkSession, make_table: MakeTable, copies: int) -> None:
    table = make_table(SCHEMA, ("k",))
    for number in range(copies):
        table.upsert(pa.table({"k": list(range(8)), "v": [number] * 8, "s": ["x"] * 8}, schema=SCHEMA))
        table.delete(pa.table({"k": [number]}))
    sizes = table.files().column("bytes").to_pylist()
    assert len(set(sizes)) < len(sizes), "the test needs files of one size"
    expected = rows_of(table.scan().to_arrow())
    assert len(expected) == 7
    assert read_all_ways(spark, table) == [expected, expected]


def test_many_files(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(SCHEMA, ("k",), options={"target-file-size": "1 kb", "bucket": "2"})
    for number in range(2):
        # Rows that do not compress, so that each file is full soon.
        ks = list(range(number, 20_000))
        table.upsert(pa.table({"k": ks, "v": [hash((k, number)) for k in ks], "s": ["x"] * len(ks)}, schema=SCHEMA))
    assert table.files().num_rows > 400
    rows = lakelog.spark.read_table(spark, table.name)
    assert rows.count() == 20_000
    assert rows_of(rows.toArrow()) == rows_of(table.scan().to_arrow())


@pytest.mark.parametrize("form", ["case", "join", "path"])
def test_a_file_that_is_not_the_committed_one_ends_the_query(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    use(form, monkeypatch)
    table = make_table(SCHEMA, ("k",))
    for number in range(2):
        table.upsert(pa.table({"k": [1, 2], "v": [number] * 2, "s": ["x"] * 2}, schema=SCHEMA))
    known = lakelog.spark.read_table(spark, table.name)
    assert known.count() == 2
    old, new = [
        Path(unquote(table.location.removeprefix("file://")), path) for path in table.files()["path"].to_pylist()
    ]
    # The rows of both files are told apart by size or path; a file changed by hand has another size.
    other = make_table(SCHEMA, ("k",))
    other.upsert(pa.table({"k": list(range(100)), "v": list(range(100)), "s": ["x"] * 100}, schema=SCHEMA))
    path = Path(unquote(other.location.removeprefix("file://")), other.files()["path"][0].as_py())
    old.write_bytes(path.read_bytes())
    installation_of(spark).frames.clear()
    with pytest.raises(SparkRuntimeException, match="cannot be told whether a row is superseded"):
        lakelog.spark.read_table(spark, table.name).collect()
    assert new.exists()


def test_positions_are_found_once(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(SCHEMA, ("k",))
    for number in range(2):
        table.upsert(pa.table({"k": [1, 2], "v": [number] * 2, "s": ["x"] * 2}, schema=SCHEMA))

    def jobs_of_a_read() -> int:
        tracker = spark.sparkContext.statusTracker()
        before = len(tracker.getJobIdsForGroup())
        lakelog.spark.read_table(spark, table.name)
        return len(tracker.getJobIdsForGroup()) - before

    assert jobs_of_a_read() == 1
    assert jobs_of_a_read() == 0


def test_two_reads_can_be_joined(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(SCHEMA, ("k",))
    for number in range(2):
        table.upsert(pa.table({"k": [1, 2, 3], "v": [number] * 3, "s": ["x"] * 3}, schema=SCHEMA))
    left, right = (lakelog.spark.read_table(spark, table.name) for _ in range(2))
    assert left.join(right, left["k"] == right["k"]).count() == 3
