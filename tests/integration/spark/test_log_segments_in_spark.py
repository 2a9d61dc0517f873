"""What Spark's writes bring to the external log: each record once, of each key in the order of arrival."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import psycopg
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.embedded.stack import EmbeddedStack
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind
from lakelog.reads.log.plan import plan_log
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.spark.installation import installation_of
from lakelog.storage.objects.stores import LocationStores
from metastore.postgres import migrate
from metastore.store.transaction import Store
from metastore.use_cases import UseCases
from tests.integration.spark.spark_changelogs import Write, by_format, by_function, frame_of, make
from tests.integration.spark.spark_tables import MakeTable
from tests.support.log.log_brokers import FakeBrokers
from tests.support.metastore.serving import serving

FIRST = ("+I 1|10|100", "+I 1|20|200", "+U 1|10|101", "-D 2|10|-")
SECOND = ("-D 1|20|-", "+I 2|30|5", "+U 1|10|102")


@pytest.fixture(scope="module")
def metastore_with_brokers(
    postgres_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The target of a metastore whose brokers are in memory: nothing of these writes reaches a broker."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    with psycopg.connect(postgres_server.url().replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("CREATE DATABASE log_segments_in_spark TEMPLATE template0")
    url = postgres_server.url("log_segments_in_spark")
    migrate(url)

    def make_use_cases(store: Store) -> UseCases:
        return UseCases(store, f"file://{warehouse}/", brokers=FakeBrokers().make())

    with serving(url, make_use_cases) as target:
        yield target


@pytest.fixture(scope="module")
def spark(spark: SparkSession, stack: EmbeddedStack, metastore_with_brokers: str) -> Iterator[SparkSession]:
    """The session over that metastore."""
    lakelog.spark.install(spark, metastore_with_brokers)
    yield spark
    lakelog.spark.install(spark, stack.target)


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> Catalog:
    """That metastore's."""
    return Catalog(installation_of(spark).metastore, LocationStores())


def logged(spark: SparkSession, table: Table, snapshot_id: int) -> dict[str, list[str]]:
    """What came of each key, in the order of the log."""
    plan = plan_log(installation_of(spark).metastore, table.uuid, snapshot_id - 1, snapshot_id)
    root = Path(unquote(table.location.removeprefix("file://")))
    found: dict[str, list[str]] = {}
    for chunk in plan.chunks:
        for file in chunk.files:
            for row in pq.read_table(root / file.path, partitioning=None).to_pylist():
                kind = RowKind(row.get(ROW_KIND_COLUMN) or 0).text
                value = "-" if row["v"] is None else row["v"]
                found.setdefault(f"{row['pt']}|{row['k']}", []).append(f"{kind} {value}")
    return found


@pytest.mark.parametrize(("producer", "write"), [("lookup", by_function), ("input", by_format)])
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
    lakelog.spark.write(frame_of(spark, FIRST[:2]), table.name, mode="overwrite")
    assert logged(spark, table, 2) == {}, "an overwrite brings nothing"


def test_a_stream_brings_the_records_of_its_batches(spark: SparkSession, make_table: MakeTable, tmp_path: Path) -> None:
    table = make(make_table, "none", log__system="kafka")
    source = str(tmp_path / "source")
    frame_of(spark, FIRST).write.json(source)
    frame = spark.readStream.schema("pt long, k long, v long, _row_kind string").json(source)
    sink = frame.writeStream.format("lakelog").option("table", table.name)
    query = sink.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
    query.awaitTermination()
    assert logged(spark, table, 1) == {"1|10": ["+I 100", "+U 101"], "1|20": ["+I 200"], "2|10": ["-D -"]}
