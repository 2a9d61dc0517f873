"""Queries of Spark over the log of a real broker: they show what the files would, and go on without it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import lakelog.spark
from lakelog.embedded.stack import EmbeddedStack
from lakelog.log.kafka import open_kafka_log
from lakelog.log.secrets import Secrets
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.spark.installation import installation_of
from lakelog.storage.objects.stores import LocationStores
from metastore.logs.brokers import Brokers
from metastore.store.transaction import Store
from metastore.use_cases import UseCases
from tests.support.log.logging_tables import HandPublisher
from tests.support.metastore.serving import serving
from tests.support.spark.driven_stream import STREAMED, put
from tests.support.spark.stream_query import StreamQuery

NAMES = ("table", "_snapshot_id", "k", "_row_kind", "v")
Emitted = list[tuple[Any, ...]]


@pytest.fixture
def session(
    spark: SparkSession, stack: EmbeddedStack, kafka_broker: str, migrated_url: str, tmp_path: Path
) -> Iterator[SparkSession]:
    """The session of the tests, for a while with a metastore that knows the broker."""

    def make_use_cases(store: Store) -> UseCases:
        brokers = Brokers([(kafka_broker,)], lambda options: open_kafka_log(options, Secrets({})))
        return UseCases(store, f"file://{tmp_path}/warehouse/", brokers=brokers)

    with serving(migrated_url, make_use_cases) as target:
        lakelog.spark.install(spark, target)
        yield spark
        installation_of(spark).metastore.close()
        lakelog.spark.install(spark, stack.target)


class BothStreams(StreamQuery):
    """One query over the streams of two tables, an append table and one with a key."""

    def __init__(self, spark: SparkSession, tables: Sequence[Table], checkpoint: Path, **options: Any) -> None:
        super().__init__(spark, "", checkpoint, **options)
        self.tables = tables

    def load(self) -> DataFrame:
        frames = []
        for table in self.tables:
            self.table = table.name
            frame = super().load().withColumn("table", F.lit(table.name.partition(".")[2]))
            frames.append(frame if "_row_kind" in frame.columns else frame.withColumn("_row_kind", F.lit("+I")))
        return frames[0].unionByName(frames[1])

    def emitted(self) -> Emitted:
        return sorted(tuple(row[name] for name in NAMES) for row in self.rows())


def hide_files(tables: Sequence[Table], hidden: bool) -> None:
    """Whoever reads files fails."""
    for table in tables:
        folder = Path(unquote(table.location.removeprefix("file://")))
        away = folder.with_name(f"{folder.name}.hidden")
        os.rename(*((folder, away) if hidden else (away, folder)))


def cut(servers: str, topic: str) -> None:
    """Leaves nothing of a topic."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for done in admin.delete_records([TopicPartition(topic, partition, -1) for partition in range(2)]).values():
        done.result(30)


def test_queries_read_the_log_and_files_where_it_is_cut(
    session: SparkSession, kafka_broker: str, tmp_path: Path
) -> None:
    metastore = installation_of(session).metastore
    catalog = Catalog(metastore, LocationStores())
    catalog.create_database("logged")
    # With a retention the topic of either takes a request to delete records.
    options = {"log.system": "kafka", "kafka.bootstrap.servers": kafka_broker, "bucket": "2", "log.retention": "1 d"}
    tables = [
        catalog.create_table("logged.rows", STREAMED, options=options | {"bucket-key": "k"}),
        catalog.create_table("logged.keys", STREAMED, primary_key=["k"], options=options),
    ]
    log = open_kafka_log(options, Secrets({}))
    publishers = [HandPublisher(metastore, lambda _info: log, table) for table in tables]

    def append(*rows: tuple[int, str]) -> None:
        for table, publisher in zip(tables, publishers, strict=True):
            table.append(put(*rows))
            publisher.publish()

    query = BothStreams(session, tables, tmp_path / "checkpoint", scan__snapshot_id="1", metadata_columns=NAMES[1])
    append((1, "a"), (2, "b"), (3, "c"))
    append((2, "B"), (4, "d"))
    hide_files(tables, True)
    assert query.emitted() == [
        ("keys", 1, 1, "+I", "a"), ("keys", 1, 2, "+I", "b"), ("keys", 1, 3, "+I", "c"),
        ("keys", 2, 2, "+U", "B"), ("keys", 2, 2, "-U", "b"), ("keys", 2, 4, "+I", "d"),
        ("rows", 1, 1, "+I", "a"), ("rows", 1, 2, "+I", "b"), ("rows", 1, 3, "+I", "c"),
        ("rows", 2, 2, "+I", "B"), ("rows", 2, 4, "+I", "d"),
    ]  # fmt: skip
    hide_files(tables, False)
    append((4, "D"), (5, "e"))
    later = [
        ("keys", 3, 4, "+U", "D"), ("keys", 3, 4, "-U", "d"), ("keys", 3, 5, "+I", "e"),
        ("rows", 3, 4, "+I", "D"), ("rows", 3, 5, "+I", "e"),
    ]  # fmt: skip
    assert query.emitted() == later
    for table in tables:
        cut(kafka_broker, metastore.get_log(table.uuid).topic)
    query.forget_last_batch()
    assert query.emitted() == later
    # Behind the cut the log goes on.
    append((5, "E"))
    assert query.emitted() == [("keys", 4, 5, "+U", "E"), ("keys", 4, 5, "-U", "e"), ("rows", 4, 5, "+I", "E")]
    for publisher in publishers:
        publisher.close()
