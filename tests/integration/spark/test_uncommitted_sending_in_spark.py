"""Tables with `log.consistency` = `eventual` on a real broker: Spark's tasks send what they write at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
import structlog
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.embedded.stack import EmbeddedStack
from lakelog.log.columns import concat_fetched
from lakelog.log.kafka import KafkaLog, open_kafka_log
from lakelog.log.records import FetchedRecords
from lakelog.log.secrets import Secrets
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.spark.batch import table_write
from lakelog.spark.executor import write as tasks
from lakelog.spark.installation import installation_of
from lakelog.storage.objects.stores import LocationStores
from metastore.logs.brokers import Brokers
from metastore.postgres import migrate
from metastore.store.transaction import Store
from metastore.use_cases import UseCases
from tests.integration.spark.spark_tables import MakeTable
from tests.support.log.logging_tables import HandPublisher
from tests.support.metastore.serving import serving
from tests.support.spark.given_session import GivenSession
from writer.config import Config, parse_config
from writer.exit_status import ExitStatus
from writer.pipeline.reading import read_pipeline
from writer.wiring import make_events, make_service, open_catalog

pytestmark = pytest.mark.timeout(300)
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
OPTIONS = {"log.system": "kafka", "log.consistency": "eventual", "bucket": "2", "log.format": "json"}


def open_log(options: Mapping[str, str]) -> KafkaLog:
    return open_kafka_log(options, Secrets({}))


@pytest.fixture(scope="module")
def target(
    postgres_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory, kafka_broker: str
) -> Iterator[str]:
    """A metastore that allows the broker."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    with psycopg.connect(postgres_server.url().replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("CREATE DATABASE uncommitted_sending_in_spark TEMPLATE template0")
    url = postgres_server.url("uncommitted_sending_in_spark")
    migrate(url)

    def make(store: Store) -> UseCases:
        return UseCases(store, f"file://{warehouse}/", brokers=Brokers([(kafka_broker,)], open_log))

    with serving(url, make) as found:
        yield found


@pytest.fixture(scope="module")
def spark(spark: SparkSession, stack: EmbeddedStack, target: str) -> Iterator[SparkSession]:
    """The session over that metastore."""
    lakelog.spark.install(spark, target)
    yield spark
    lakelog.spark.install(spark, stack.target)


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> Catalog:
    """That metastore's."""
    return Catalog(installation_of(spark).metastore, LocationStores())


@dataclass
class Logged:
    """A table, its topic and its publisher."""

    catalog: Catalog
    table: Table
    log: KafkaLog
    topic: str

    def read(self) -> FetchedRecords:
        """All that stands in the topic."""
        reader = self.log.open_reader(self.topic)
        ends = reader.list_offsets()
        reader.assign(dict.fromkeys(range(len(ends)), 0))
        parts = []
        while any(reader.positions()[partition] < end for partition, end in enumerate(ends)):
            parts.append(reader.fetch(1000, 0.2))
        reader.close()
        return concat_fetched(parts)

    def publish(self) -> None:
        publisher = HandPublisher(self.catalog.metastore, lambda _info: self.log, self.table)
        publisher.publish()
        publisher.close()

    def sent(self) -> list[Mapping[int, int] | None]:
        return [each.sent_offsets for each in self.catalog.metastore.list_snapshots(self.table.uuid).snapshots]

    def attempts(self) -> list[bytes]:
        page = self.catalog.metastore.list_snapshots(self.table.uuid)
        return [each.attempt_id.encode() for each in page.snapshots]


MakeLogged = Callable[..., Logged]


@pytest.fixture
def make_logged(make_table: MakeTable, catalog: Catalog, kafka_broker: str) -> MakeLogged:
    def make(key: tuple[str, ...] = ("k",)) -> Logged:
        servers = {"kafka.bootstrap.servers": kafka_broker}
        table = make_table(SCHEMA, key, options={**OPTIONS, **({} if key else {"bucket": "-1"}), **servers})
        return Logged(catalog, table, open_log(servers), catalog.metastore.get_log(table.uuid).topic)

    return make


def keys_of(records: FetchedRecords) -> list[int]:
    return sorted(int(key.split(b":")[1].strip(b" }")) for key in records.keys.to_pylist())


def test_a_write_sends_its_rows_and_the_publisher_has_nothing_to_add(
    spark: SparkSession, make_logged: MakeLogged
) -> None:
    logged = make_logged()
    lakelog.spark.write(spark.range(0, 100, numPartitions=3).selectExpr("id k", "1 v"), logged.table.name)
    found = logged.read()
    assert keys_of(found) == list(range(100))
    assert set(found.attempts.to_pylist()) == set(logged.attempts())
    assert len(set(found.indexes.to_pylist())) == 100
    (sent,) = logged.sent()
    assert sent is not None
    logged.publish()
    assert len(logged.read()) == 100, "and no record of the publisher's"
    state = logged.catalog.metastore.get_publish_state(logged.table.uuid)
    assert (state.snapshot_id, list(state.offsets)) == (1, [sent[0], sent[1]])


def test_what_tasks_have_sent_in_an_order_of_their_own_is_published_again(
    spark: SparkSession, make_logged: MakeLogged
) -> None:
    """By `format("lakelog")` any task writes into any bucket."""
    logged = make_logged()
    frame = spark.range(0, 50, numPartitions=2).selectExpr("id k", "1 v")
    frame.write.format("lakelog").option("table", logged.table.name).mode("append").save()
    assert logged.sent() == [None]
    assert keys_of(logged.read()) == list(range(50)), "they are there at once all the same"
    logged.publish()
    found = logged.read()
    assert keys_of(found) == sorted([*range(50), *range(50)])
    assert found.snapshot_ids.null_count == 50


def test_a_task_that_ran_twice(spark: SparkSession, make_logged: MakeLogged, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records stand there twice, each under a number of its own, and the commit knows of those that count."""
    logged = make_logged(key=())

    def make(task: tasks.WriteTask) -> tasks.BatchFunction:
        whole = tasks.row_writer(task)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            results = list(whole(batches))
            context = TaskContext.get()
            assert context is not None
            if context.partitionId() == 1 and context.attemptNumber() == 0:
                raise RuntimeError("a fault of the test")
            yield from results

        return write

    monkeypatch.setattr(table_write, "row_writer", make)
    lakelog.spark.write(spark.range(0, 40, numPartitions=2).selectExpr("id k", "1 v"), logged.table.name)
    found = logged.read()
    assert len(found) == 60
    assert len(set(zip(found.attempts.to_pylist(), found.indexes.to_pylist(), strict=True))) == 60
    assert logged.sent() != [None]


def test_a_stream_and_a_pipeline_send_at_once(
    spark: SparkSession, target: str, make_logged: MakeLogged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = make_logged()
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text('{"k": 1, "v": 1}\n{"k": 2, "v": 1}\n')
    frame = spark.readStream.schema("k long, v long").json(str(folder)).coalesce(1)
    sink = frame.writeStream.format("lakelog").option("table", logged.table.name)
    sink.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()
    assert keys_of(logged.read()) == [1, 2]
    assert logged.sent()[0] is not None

    run_pipeline(spark, target, logged, tmp_path, monkeypatch)
    found = logged.read()
    assert keys_of(found) == [1, 1, 2, 2]
    assert set(found.attempts.to_pylist()) == set(logged.attempts())
    assert None not in logged.sent()


_numbers = itertools.count(1)


def run_pipeline(
    spark: SparkSession, target: str, logged: Logged, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder's rows once more, by the service."""
    file = folder / "p.yaml"
    file.write_text(
        f"name: early{next(_numbers)}\ntable: {logged.table.name}\nmode: upsert\n"
        "source: {type: files, path: ./in, format: json}\ntrigger: {available_now: true}\ncheckpoint: ./state\n"
    )
    config: Any = parse_config(["run", str(file)], {"LAKELOG_TARGET": target})
    assert isinstance(config, Config)
    pipeline = read_pipeline(file)
    metastore, found = open_catalog(config, pipeline)
    service, _ = make_service(
        config, pipeline, metastore, found, make_events(), GivenSession(spark), structlog.get_logger()
    )
    assert service.run() is ExitStatus.FINE
