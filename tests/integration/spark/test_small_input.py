"""Rows of a small file are written by the driver program, and mean what they mean by tasks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import lakelog.spark
from lakelog.errors import InvalidArgument
from lakelog.spark.batch import given_rows, small_input
from lakelog.spark.batch.small_input import collect_small_input
from lakelog.spark.session.arrow_batches import WIDE_BYTES
from tests.integration.spark.spark_tables import MakeTable, live_files, stored_files
from tests.support.spark.write_ways import written_by_tasks

HERE = "file:///t"
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])


@pytest.fixture
def file_of(spark: SparkSession, tmp_path: Path) -> Callable[..., DataFrame]:
    """Makes a DataFrame of a Parquet file that has these columns."""

    def make(columns: dict[str, Any], name: str = "one") -> DataFrame:
        folder = tmp_path / "files"
        folder.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
        return spark.read.parquet(str(folder))

    return make


FileOf = Callable[..., DataFrame]
THREE = {"k": [3, 1, 3], "v": ["first", None, "last"]}


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        (lambda df: df, [(3, "first"), (1, None), (3, "last")]),
        (lambda df: df.where("k > 1").selectExpr("k + 1 k", "upper(v) v"), [(4, "FIRST"), (4, "LAST")]),
        (lambda df: df.select("k").limit(2), [(3,), (1,)]),
        (lambda df: df.where("k > 9"), []),
        (lambda df: df.toDF("a`.b", "a.`b"), [(3, "first"), (1, None), (3, "last")]),
    ],
)
def test_rows_of_a_small_file(
    file_of: FileOf, change: Callable[[DataFrame], DataFrame], rows: list[tuple[object, ...]]
) -> None:
    found = collect_small_input(change(file_of(THREE)), HERE)
    assert found is not None
    assert list(zip(*(column.to_pylist() for column in found.columns), strict=True)) == rows


def test_rows_of_a_text(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("1,a\n2,b\n")
    found = collect_small_input(spark.read.schema("k bigint, v string").csv(str(tmp_path)), HERE)
    assert found is not None
    assert found.to_pydict() == {"k": [1, 2], "v": ["a", "b"]}


def many(count: int) -> dict[str, Any]:
    return {"k": [1] * count, "v": ["x"] * count}


def test_rows_that_are_just_few(file_of: FileOf) -> None:
    found = collect_small_input(file_of(many(given_rows.MAX_ROWS)), HERE)
    assert found is not None
    assert found.num_rows == given_rows.MAX_ROWS
    assert collect_small_input(file_of(many(given_rows.MAX_ROWS + 1)), HERE) is None


def test_rows_that_are_just_narrow(file_of: FileOf) -> None:
    assert collect_small_input(file_of({"k": [1, 2], "v": ["é" * (WIDE_BYTES // 2), None]}), HERE) is not None
    assert collect_small_input(file_of({"k": [1, 2], "v": [None, "é" * (WIDE_BYTES // 2) + "x"]}), HERE) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda df: df.selectExpr("explode(sequence(1, 1000000)) k"),
        lambda df: df.selectExpr("k", "repeat('x', 300000) v"),
        lambda df: df.select(sf.udf(lambda k: k, "long")("k").alias("k")),
        lambda df: df.selectExpr("k", "array(v) v"),
        lambda df: df.unionAll(df),
        lambda df: df.crossJoin(df.selectExpr("v w")),
        lambda df: df.groupBy("k").count(),
        lambda df: df.orderBy("k"),
        # Spark takes columns for one if their names only differ in case.
        lambda df: df.toDF("v", "V"),
        # The limit comes first, by a shuffle.
        lambda df: df.limit(2),
    ],
)
def test_rows_that_spark_makes_of_a_small_file(file_of: FileOf, change: Callable[[DataFrame], DataFrame]) -> None:
    assert collect_small_input(change(file_of(THREE)), HERE) is None


def test_several_partitions_have_no_order_without_tasks(spark: SparkSession, file_of: FileOf) -> None:
    file_of(THREE)
    df = file_of(THREE, "two")
    assert df.rdd.getNumPartitions() == 2
    assert collect_small_input(df, HERE) is None


def test_a_large_file_is_not_even_opened(file_of: FileOf, monkeypatch: pytest.MonkeyPatch) -> None:
    df = file_of(THREE)
    monkeypatch.setattr(small_input, "MAX_INPUT_BYTES", 10)
    assert collect_small_input(df, HERE) is None


def test_executors_of_other_machines_write_to_folders_themselves(
    file_of: FileOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = file_of(THREE)
    monkeypatch.setattr("lakelog.spark.batch.given_rows.is_on_this_machine", lambda _master: False)
    assert collect_small_input(df, HERE) is None
    assert collect_small_input(df, "s3://lake/t") is not None


def test_no_python_task_runs(file_of: FileOf, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Any:
        raise AssertionError("a task")

    monkeypatch.setattr("lakelog.spark.batch.table_write.row_writer", refuse)
    for key in ((), ("k",)):
        table = make_table(SCHEMA, key)
        assert lakelog.spark.write(file_of(THREE), table.name).snapshot_id == 1
        with written_by_tasks(), pytest.raises(AssertionError, match="a task"):
            lakelog.spark.write(file_of(THREE), table.name)


@pytest.mark.parametrize("by_tasks", [False, True])
def test_the_last_row_of_a_key_stays(file_of: FileOf, make_table: MakeTable, by_tasks: bool) -> None:
    table = make_table(SCHEMA, ("k",), options={"bucket": "3", "changelog-producer": "lookup"})
    with written_by_tasks(by_tasks):
        lakelog.spark.write(file_of(THREE), table.name)
        # More than one batch of Spark's reader.
        keys = [n % 50 for n in range(4900)]
        lakelog.spark.write(file_of({"k": keys, "v": [str(n) for n in range(4900)]}), table.name)
    rows = {row["k"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert rows == {k: str(4850 + k) for k in range(50)}
    changes = table.changes(1, 2, timeout=10).to_arrow().to_pylist()
    shown = [(row["_row_kind"], row["v"]) for row in changes if row["k"] in (1, 3)]
    assert sorted(shown, key=repr) == [
        ("+U", "4851"),
        ("+U", "4853"),
        ("-U", "last"),
        ("-U", None),
    ]
    assert stored_files(table) >= live_files(table)


def test_special_values_are_the_same_either_way(file_of: FileOf, make_table: MakeTable) -> None:
    rows = pa.table(
        {
            "k": pa.array([1, 2, 3], pa.int64()),
            "f": pa.array([float("nan"), -0.0, None], pa.float64()),
            "d": pa.array(
                [Decimal("-0.01"), None, Decimal("99999999999999999999999999999999999.99")], pa.decimal128(38, 2)
            ),
            # Of 1582, before Gregory's calendar, and of the year 1.
            "t": pa.array([-12_219_379_137_000_004, -62_135_596_800_000_000, None], pa.timestamp("us", "UTC")),
            "n": pa.array([-2_208_992_400_000_000, None, 253_402_214_400_000_000], pa.timestamp("us")),
            "b": pa.array([b"\x00\xff", b"", None], pa.binary()),
            "y": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)], pa.date32()),
        }
    )
    schema = rows.schema.set(0, pa.field("k", pa.int64(), nullable=False))
    written: list[tuple[pa.Table, list[Any]]] = []
    for by_tasks in (False, True):
        table = make_table(schema)
        with written_by_tasks(by_tasks):
            lakelog.spark.write(file_of(dict(zip(rows.schema.names, rows.columns, strict=True))), table.name)
        written.append((table.scan().to_arrow(), [table.scan(filter=text).count() for text in ("f > 1", "k < 2")]))
    assert repr(written[0][0].to_pylist()) == repr(written[1][0].to_pylist())
    assert written[0][0].cast(rows.schema).drop_columns(["f"]).equals(rows.drop_columns(["f"]))
    assert written[0][1] == written[1][1] == [1, 1]


@pytest.mark.parametrize("by_tasks", [False, True])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda df: df.selectExpr("k", "1 v"), "v: expected string, got int"),
        (lambda df: df.selectExpr("k"), "v: expected string, got nothing"),
        (lambda df: df.selectExpr("nullif(k, 1) k", "v"), "'k' has None"),
        (lambda df: df.selectExpr("k", "v", "v"), "2 columns of this name"),
    ],
)
def test_refused_rows_leave_nothing(
    file_of: FileOf,
    make_table: MakeTable,
    change: Callable[[DataFrame], DataFrame],
    message: str,
    by_tasks: bool,
) -> None:
    table = make_table(SCHEMA)
    with written_by_tasks(by_tasks), pytest.raises(InvalidArgument, match=message):
        lakelog.spark.write(change(file_of(THREE)), table.name)
    assert table.snapshots().num_rows == 0
    assert stored_files(table) == set()


def test_rows_that_were_read_in_vain_are_written_once(file_of: FileOf, make_table: MakeTable) -> None:
    table = make_table(SCHEMA)
    count = given_rows.MAX_ROWS + 1
    lakelog.spark.write(file_of(many(count)), table.name)
    wide = {"k": [1, 2], "v": ["x" * (WIDE_BYTES + 1), "y"]}
    lakelog.spark.write(file_of(wide), table.name)
    assert table.scan().count() == count + 2
    assert stored_files(table) == live_files(table)
