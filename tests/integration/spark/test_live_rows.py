"""Files less their superseded rows: few and many files, files of one size, files that are not what they should be."""

from __future__ import annotations

import random
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark
from lakelog.sdk.tables.table import Table
from lakelog.spark.batch import deletion_vectors, few_rows, live_rows
from lakelog.spark.installation import installation_of
from tests.integration.spark.spark_tables import MakeTable

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64()), ("s", pa.string())])


def rows_of(data: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in data.to_pylist())


def read_all_ways(spark: SparkSession, table: Table) -> list[list[tuple[object, ...]]]:
    source = spark.read.format("lakelog").option("table", table.name).load()
    return [rows_of(lakelog.spark.read_table(spark, table.name).toArrow()), rows_of(source.toArrow())]


def use(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes reads take one of the forms, whatever the number of files."""
    if form == "path":
        # By a job, as where there are too many keys for the driver program.
        monkeypatch.setattr(deletion_vectors, "MAX_DRIVER_KEY_BYTES", 0)
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
    with pytest.raises(SparkRuntimeException, match="cannot be known whether a row is superseded"):
        lakelog.spark.read_table(spark, table.name).collect()
    assert new.exists()


@pytest.mark.parametrize(("key_bytes", "jobs"), [(32, 0), (31, 1)])
def test_deletion_vectors_are_found_once(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, key_bytes: int, jobs: int
) -> None:
    """By the driver program where the keys of all sections, here two rows of 8 bytes in two files, take little."""
    monkeypatch.setattr(deletion_vectors, "MAX_DRIVER_KEY_BYTES", key_bytes)
    table = make_table(SCHEMA, ("k",))
    for number in range(2):
        table.upsert(pa.table({"k": [1, 2], "v": [number] * 2, "s": ["x"] * 2}, schema=SCHEMA))

    def jobs_of_a_read() -> int:
        tracker = spark.sparkContext.statusTracker()
        before = len(tracker.getJobIdsForGroup())
        lakelog.spark.read_table(spark, table.name)
        return len(tracker.getJobIdsForGroup()) - before

    assert jobs_of_a_read() == jobs
    assert jobs_of_a_read() == 0
    assert rows_of(lakelog.spark.read_table(spark, table.name).toArrow()) == [(1, 1, "x"), (2, 1, "x")]


def test_points_and_small_ranges_are_read_at_once(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(SCHEMA, ("k",), options={"bucket": "2"})
    for number in range(3):
        ks = list(range(number, 90, number + 1))
        table.upsert(pa.table({"k": ks, "v": [number] * len(ks), "s": ["x"] * len(ks)}, schema=SCHEMA))
    table.delete(pa.table({"k": [40, 41]}))

    def read(condition: str) -> DataFrame:
        rows = lakelog.spark.read_table(spark, table.name, filter=condition)
        assert rows_of(rows.toArrow()) == rows_of(table.scan(filter=condition).to_arrow())
        return rows

    for condition in ("k = 50", "k = 40", "k BETWEEN 30 AND 49 AND v > 0", "k IN (1, 2, 800)"):
        assert not read(condition).inputFiles(), condition
    # A condition that lakelog does not know, or one that says nothing of the key, is for Spark's scan.
    assert read("v = 2").inputFiles()
    assert lakelog.spark.read_table(spark, table.name, filter="abs(k) = 50 AND s RLIKE 'x'").inputFiles()
    left, right = read("k < 10"), read("k < 10")
    assert left.join(right, left["k"] == right["k"]).count() == left.count()
    for limit in ("MAX_FILES", "MAX_READ_BYTES", "MAX_RESULT_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(few_rows, limit, 1)
            assert read("k BETWEEN 30 AND 49").inputFiles(), limit


def test_two_reads_can_be_joined(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(SCHEMA, ("k",))
    for number in range(2):
        table.upsert(pa.table({"k": [1, 2, 3], "v": [number] * 3, "s": ["x"] * 3}, schema=SCHEMA))
    left, right = (lakelog.spark.read_table(spark, table.name) for _ in range(2))
    assert left.join(right, left["k"] == right["k"]).count() == 3
