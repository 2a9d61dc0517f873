"""`format("lakelog")` in classic sessions: the plan of `read_table`, at the newest snapshot of each query."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import lakelog.spark
from lakelog.sdk.tables.table import Table
from lakelog.spark import installing
from lakelog.spark.batch import few_rows, table_read
from lakelog.spark.installation import installation_of
from lakelog.spark.installing import install_for_writes
from lakelog.spark.java import batch_calls, compiling
from lakelog.testing import EmbeddedStack
from tests.integration.spark.spark_tables import MakeTable, live_files

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64()), ("w", pa.string())])


@pytest.fixture
def by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows go the way of many."""
    monkeypatch.setattr(few_rows, "MAX_FILES", -1)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files each read has planned."""
    found: list[int] = []
    original = table_read.read_plan

    def read_plan(spark: Any, installation: Any, plan: Any, condition: Any) -> DataFrame:
        found.append(len(plan.files))
        return original(spark, installation, plan, condition)

    monkeypatch.setattr(batch_calls, "read_plan", read_plan)
    return found


def put(*ks: int, v: int = 0, w: str = "x") -> pa.Table:
    return pa.table({"k": list(ks), "v": [v] * len(ks), "w": [w] * len(ks)}, schema=SCHEMA)


def load(spark: SparkSession, table: Table, **options: str) -> DataFrame:
    return spark.read.format("lakelog").option("table", table.name).options(**options).load()


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().toString())


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


@pytest.mark.usefixtures("by_spark")
@pytest.mark.parametrize("key", [(), ("k",)])
def test_sparks_own_reader_gets_columns_and_conditions(
    spark: SparkSession, make_table: MakeTable, key: tuple[str, ...]
) -> None:
    table = make_table(SCHEMA, key)
    table.upsert(put(1, 2, 3, v=1)) if key else table.append(put(1, 2, 3, v=1))
    table.upsert(put(3, v=2)) if key else table.append(put(4, v=2))
    frame = load(spark, table).where("v >= 2 AND w = 'x'").select("k")
    assert rows_of(frame) == [(3,)] if key else [(4,)]
    plan = plan_of(frame)
    assert "FileScan parquet" in plan
    assert "GreaterThanOrEqual(v,2)" in plan
    assert "BatchScan" not in plan
    counted = load(spark, table).selectExpr("count(*)")
    assert rows_of(counted) == [(3,)] if key else [(4,)]
    # A number in its file tells whether a row is superseded.
    assert ("_tmp_metadata_row_index" if key else "ReadSchema: struct<>") in plan_of(counted)


def test_conditions_exclude_files(spark: SparkSession, make_table: MakeTable, planned: list[int]) -> None:
    table = make_table(SCHEMA)
    for k in (1, 10, 20):
        table.append(put(k, k + 1))
    assert len(live_files(table)) == 3
    assert rows_of(load(spark, table).where("k >= 20").select("k")) == [(20,), (21,)]
    assert rows_of(load(spark, table).where(sf.col("k").isin(1, 11) & (sf.length("w") == 1)).select("k")) == [
        (1,),
        (11,),
    ]
    assert rows_of(load(spark, table, filter="k < 10", columns="v,k").where("k > 1")) == [(0, 2)]
    assert planned == [1, 2, 1]


def test_a_point_is_read_in_the_driver_program(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(SCHEMA, ("k",))
    table.upsert(put(*range(100)))
    frame = load(spark, table).where("k = 7")
    assert rows_of(frame) == [(7, 0, "x")]
    assert "LocalTableScan" in plan_of(frame)


def test_conditions_that_only_spark_understands(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(SCHEMA, ("k",))
    table.upsert(put(1, 2, 3))
    odd = sf.udf(lambda k: k % 2 == 1, "boolean")
    assert rows_of(load(spark, table).where(odd("k") & (sf.col("k") > 1)).select("k")) == [(3,)]
    assert load(spark, table).where("rand() < 2 AND k > 1").count() == 2
    assert load(spark, table).where("k IN (SELECT max(k) FROM VALUES (1), (3) AS t(k))").count() == 1


def test_each_query_reads_the_newest_snapshot(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(SCHEMA, ("k",))
    frame = load(spark, table)
    assert frame.count() == 0
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW named USING lakelog OPTIONS (table '{table.name}')")
    table.upsert(put(1))
    assert frame.count() == 1
    assert spark.sql("SELECT count(*) FROM named").collect()[0][0] == 1
    table.upsert(put(2))
    assert frame.count() == 2
    assert spark.sql("SELECT count(*) FROM named").collect()[0][0] == 2
    # One that is fixed stays so.
    assert load(spark, table, **{"scan.snapshot-id": "1"}).count() == 1


def test_reads_of_one_query_show_one_snapshot(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(SCHEMA, ("k",))
    table.upsert(put(1, 2))
    original = table_read.read_plan
    new = itertools.count(100)

    def read_plan(*args: Any) -> DataFrame:
        rows = original(*args)
        table.upsert(put(next(new)))
        return rows

    monkeypatch.setattr(batch_calls, "read_plan", read_plan)
    frame = load(spark, table)
    both = frame.alias("a").join(frame.alias("b"), "k").unionAll(load(spark, table).selectExpr("k", "v", "w", "v", "w"))
    other = both.where("k NOT IN (SELECT k + 1000 FROM VALUES (1) AS t(k))")
    assert sorted(row[0] for row in other.collect()) == [1, 1, 2, 2]
    assert frame.count() > 2


def test_what_was_cached_stays(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(SCHEMA, ("k",))
    table.upsert(put(1))
    frame = load(spark, table).cache()
    assert frame.count() == 1
    table.upsert(put(2))
    assert frame.count() == 1
    frame.unpersist()
    assert frame.count() == 2


def test_a_column_that_is_gone_is_named(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(SCHEMA, ("k",))
    table.upsert(put(1))
    frame = load(spark, table)
    table.alter(columns=[lakelog.DropColumn("w")])
    assert frame.select("k").count() == 1
    with pytest.raises(AnalysisException, match=r"was altered .*: it has no column 'w' any more\. Load it again"):
        frame.collect()
    past = load(spark, table, filter="w = 'x'", **{"scan.snapshot-id": "1"})
    assert rows_of(past) == [(1, 0, "x")]


def test_wrong_options_are_named(spark: SparkSession, make_table: MakeTable) -> None:
    table = make_table(SCHEMA, ("k",))
    wrong: list[tuple[dict[str, str], str]] = [
        ({"table": "spark.nope"}, r"NotFound: Table 'spark\.nope' does not exist"),
        ({}, "'table' is missing"),
        ({"table": table.name, "columns": "K"}, "'K'"),
        ({"table": table.name, "filter": "zz > 1"}, "zz"),
        ({"table": table.name, "scan.snapshot-id": "9"}, "no snapshot"),
        ({"table": table.name, "scan.snapshotid": "9"}, "scan.snapshot-id"),
    ]
    for options, said in wrong:
        with pytest.raises(AnalysisException, match=said) as error:
            spark.read.format("lakelog").options(**options).load()
        assert "Traceback" not in str(error.value)


def test_sessions_of_their_own(spark: SparkSession, stack: EmbeddedStack, make_table: MakeTable) -> None:
    table = make_table(SCHEMA, ("k",))
    table.upsert(put(1))
    other = spark.newSession()
    with pytest.raises(AnalysisException, match=r"not installed in this session: call lakelog\.spark\.install"):
        load(other, table)
    for _ in range(2):
        lakelog.spark.install(other, stack.target)
        assert load(other, table).count() == 1
    load(other, table).where("k > 5").write.format("lakelog").option("table", table.name).mode("append").save()
    assert load(spark, table).count() == 1
    clone = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    assert load(clone, table).count() == 1


def test_an_installation_for_writes_takes_no_reads_away(
    spark: SparkSession, stack: EmbeddedStack, make_table: MakeTable
) -> None:
    table = make_table(SCHEMA, ("k",))
    table.upsert(put(1))
    install_for_writes(spark, stack.target)
    assert load(spark, table).count() == 1
    lakelog.spark.install(spark, stack.target)


@pytest.fixture
def other_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another version of Spark, whose classes are others."""
    for name in compiling._NAMED:
        source = compiling.SOURCES.joinpath(name).read_text()
        (tmp_path / name).write_text(source.replace("DataSourceV2ScanRelation", "DataSourceV3ScanRelation"))
    monkeypatch.setattr(compiling, "SOURCES", tmp_path)
    monkeypatch.setattr(compiling, "_make_installer", compiling._make_installer.__wrapped__)


@pytest.mark.usefixtures("other_spark")
def test_a_spark_with_other_classes_reads_by_python(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert compiling.source_installer(spark) is None
    assert "DataSourceV3ScanRelation" in caplog.text
    assert not installing._install_source(spark, "x", installation_of(spark))


def test_classes_are_there_together_or_not_at_all(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in compiling._NAMED:
        (tmp_path / name).write_text(compiling.SOURCES.joinpath(name).read_text())
    (tmp_path / compiling._NAMED[-1]).write_text("package lakelog; class Catalog extends Nowhere {}")
    monkeypatch.setattr(compiling, "SOURCES", tmp_path)
    added: list[object] = []
    monkeypatch.setattr(compiling, "_add_classes", lambda *arguments: added.append(arguments))
    with compiling._compiling:
        assert compiling._make_installer.__wrapped__(spark.sparkContext._gateway) is None
    assert added == []


def test_a_store_that_spark_cannot_reach_is_read_by_python(
    spark: SparkSession, make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_calls, "can_read", lambda *_: False)
    table = make_table(SCHEMA, ("k",))
    table.upsert(put(1, 2))
    frame = load(spark, table, filter="k > 1", **{"scan.snapshot-id": "1"}).select("k")
    assert rows_of(frame) == [(2,)]
    assert "BatchScan" in plan_of(frame)


def test_a_filter_of_times_means_utc(spark: SparkSession, make_table: MakeTable) -> None:
    """The session's time zone is another one, so Python evaluates it."""
    table = make_table(pa.schema([pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False)]), ("at",))
    at = pa.scalar("2024-01-01T00:00:00").cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))
    table.upsert(pa.table({"at": pa.array([at.as_py()], pa.timestamp("us", tz="UTC"))}))
    assert load(spark, table, filter="at = TIMESTAMP '2024-01-01 00:00:00'").count() == 1
    assert load(spark, table).where("at = TIMESTAMP '2023-12-31 19:00:00'").count() == 1
    assert load(spark, table).where("at = TIMESTAMP '2024-01-01 00:00:00'").count() == 0
