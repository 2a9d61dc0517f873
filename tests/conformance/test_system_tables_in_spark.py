"""Rule 7.7: the system tables, read by Spark: the same rows as those of the SDK and SQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.errors import LakelogError
from lakelog.sdk.catalog import Catalog
from lakelog.system_tables.registry import OF_TABLES
from tests.conformance.cases_system_tables import CASES, Case, make_tables, sort_rows

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def names(catalog: Catalog) -> dict[str, str]:
    """The tables of the cases, made once."""
    return make_tables(catalog)


def test_system_tables(spark: SparkSession, names: dict[str, str]) -> None:
    for case in CASES:
        name = f"{names[case.table]}${case.kind}"
        rows = lakelog.spark.read_table(
            spark, name, columns=case.columns, filter=case.filter, snapshot_id=case.at
        ).toArrow()
        assert rows.schema.names == list(case.columns), case
        assert sort_rows(rows.to_pylist()) == sorted(case.rows, key=repr), case


FORMAT_CASES = [
    next(case for case in CASES if (case.table, case.kind) == wanted and case.filter is not None)
    for wanted in (("keyed", "files"), ("keyed", "changelog"), ("keyed", "binlog"), ("keyed", "ro"))
]


@pytest.mark.parametrize("case", FORMAT_CASES, ids=[case.kind for case in FORMAT_CASES])
def test_by_format(case: Case, spark: SparkSession, names: dict[str, str]) -> None:
    options = {"table": f"{names[case.table]}${case.kind}", "columns": ",".join(case.columns)}
    options |= {"filter": case.filter or ""} | ({} if case.at is None else {"scan.snapshot-id": str(case.at)})
    rows = spark.read.format("lakelog").options(**options).load().toArrow()
    assert rows.schema.names == list(case.columns)
    assert sort_rows(rows.to_pylist()) == sorted(case.rows, key=repr)


@pytest.mark.parametrize("kind", OF_TABLES)
def test_columns(kind: str, catalog: Catalog, spark: SparkSession, names: dict[str, str]) -> None:
    name = f"{names['keyed']}${kind}"
    wanted = catalog.system_table(name).to_arrow()
    frame = lakelog.spark.read_table(spark, name)
    assert frame.columns == wanted.schema.names
    assert frame.count() == wanted.num_rows


def test_a_condition_that_only_spark_knows(spark: SparkSession, names: dict[str, str]) -> None:
    found = lakelog.spark.read_table(
        spark, f"{names['keyed']}$snapshots", columns=["kind"], filter="reverse(kind) = 'TCAPMOC'"
    )
    assert [row["kind"] for row in found.collect()] == ["COMPACT", "COMPACT"]
    database, _, name = names["log"].partition(".")
    tables = lakelog.spark.read_table(spark, "sys.tables", filter=f"database = '{database}' AND name = '{name}'")
    assert [row["rows"] for row in tables.collect()] == [3]


def test_writes_and_streams_are_refused(spark: SparkSession, names: dict[str, str]) -> None:
    name = f"{names['log']}$files"
    frame = spark.range(1)
    with pytest.raises(LakelogError, match="cannot be written"):
        lakelog.spark.write(frame, name)
    with pytest.raises(Exception, match="cannot be written"):
        frame.write.format("lakelog").option("table", name).mode("append").save()
    with pytest.raises(Exception, match=r"cannot be read as a stream: only \$audit_log and \$changelog can"):
        spark.readStream.format("lakelog").option("table", name).load()
    with pytest.raises(LakelogError, match=r"Nearest are \$files"):
        lakelog.spark.read_table(spark, f"{names['log']}$fils")


@pytest.mark.parametrize("kind", ["audit_log", "changelog"])
def test_changes_as_a_stream(kind: str, spark: SparkSession, names: dict[str, str], tmp_path: Path) -> None:
    stream = spark.readStream.format("lakelog").option("table", f"{names['lookup']}${kind}")
    frame = stream.option("scan.mode", "from-snapshot").option("scan.snapshot-id", "1").load()
    assert frame.columns[0] == "_row_kind"
    query = (
        frame.writeStream.format("memory")
        .queryName(f"of_{kind}")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    rows = [(row["_row_kind"], row["k"], row["v"]) for row in spark.table(f"of_{kind}").collect()]
    changed = [("+I", 1, "a"), ("+I", 2, "b"), ("-U", 1, "a"), ("+U", 1, "A"), ("+I", 3, "c"), ("-D", 2, "b")]
    assert sorted(rows) == sorted(changed)
