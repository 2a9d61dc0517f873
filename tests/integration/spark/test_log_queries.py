"""Queries of Spark over the log of a real broker: they show what the files would, and go on without it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import lakelog
import lakelog.spark
from lakelog.catalog import Catalog
from lakelog.embedded.stack import EmbeddedStack
from lakelog.table import Table
from tests.integration.spark.driven_stream import STREAMED, put
from tests.integration.spark.stream_query import StreamQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Told = list[tuple[Any, ...]]


@pytest.fixture
def published(kafka_broker: str, tmp_path: Path) -> Iterator[EmbeddedStack]:
    services = ["metastore", "publisher"]
    with EmbeddedStack(tmp_path / "stack", services=services, kafka_bootstrap_servers=kafka_broker) as stack:
        yield stack


@pytest.fixture
def session(spark: SparkSession, published: EmbeddedStack) -> SparkSession:
    """One of the same engine, for the other metastore."""
    session = spark.newSession()
    lakelog.spark.install(session, published.target)
    return session


def make(catalog: Catalog, name: str, key: tuple[str, ...], servers: str) -> Table:
    options = {"log.system": "kafka", "kafka.bootstrap.servers": servers, "bucket": "2"}
    more = {} if key else {"bucket-key": "k"}
    return catalog.create_table(f"logged.{name}", STREAMED, primary_key=list(key), options=options | more)


def wait_until_published(table: Table) -> None:
    metastore, give_up_s = table._catalog.metastore, time.monotonic() + 60
    newest = metastore.get_table_by_uuid(table.uuid).latest_snapshot_id
    while metastore.get_publish_state(table.uuid).snapshot_id < newest:
        assert time.monotonic() < give_up_s, "never published"
        time.sleep(0.02)


def cut(servers: str, topic: str) -> None:
    """Leaves nothing of a topic."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    ends = [TopicPartition(topic, partition, -1) for partition in range(2)]
    for done in admin.delete_records(ends).values():
        done.result(30)


def told(rows: list[dict[str, Any]]) -> Told:
    return sorted(tuple(row[name] for name in ("_snapshot_id", "k", "_row_kind", "v") if name in row) for row in rows)


def test_queries_read_the_log_and_files_where_it_is_cut(
    session: SparkSession, published: EmbeddedStack, kafka_broker: str, tmp_path: Path
) -> None:
    with lakelog.connect(published.target) as catalog:
        catalog.create_database("logged")
        tables = [make(catalog, "appended", (), kafka_broker), make(catalog, "keyed", ("k",), kafka_broker)]
        options = {"scan__snapshot_id": "1", "metadata_columns": "_snapshot_id"}
        queries = [StreamQuery(session, each.name, tmp_path / each.name, **options) for each in tables]
        for table in tables:
            table.append(put((1, "a"), (2, "b"), (3, "c")))
            table.append(put((2, "B"), (4, "d")))
            wait_until_published(table)
            # Whoever reads files now fails.
            folder = Path(unquote(table.location.removeprefix("file://")))
            os.rename(folder, folder.with_name(f"{folder.name}.hidden"))
        first: Told = [(1, 1, "a"), (1, 2, "b"), (1, 3, "c"), (2, 2, "B"), (2, 4, "d")]
        changed: Told = [
            (1, 1, "+I", "a"), (1, 2, "+I", "b"), (1, 3, "+I", "c"),
            (2, 2, "+U", "B"), (2, 2, "-U", "b"), (2, 4, "+I", "d"),
        ]  # fmt: skip
        assert [told(each.rows()) for each in queries] == [first, changed]
        for table in tables:
            folder = Path(unquote(table.location.removeprefix("file://")))
            os.rename(folder.with_name(f"{folder.name}.hidden"), folder)
            table.append(put((4, "D"), (5, "e")))
        # With AvailableNow what is not in the log yet is waited for.
        later: list[Told] = [
            [(3, 4, "D"), (3, 5, "e")],
            [(3, 4, "+U", "D"), (3, 4, "-U", "d"), (3, 5, "+I", "e")],
        ]  # fmt: skip
        assert [told(each.rows()) for each in queries] == later
        for query, table in zip(queries, tables, strict=True):
            cut(kafka_broker, catalog.metastore.get_log(table.uuid).topic)
            query.forget_last_batch()
        assert [told(each.rows()) for each in queries] == later
        # Behind the cut the log goes on.
        tables[1].append(put((5, "E")))
        assert told(queries[1].rows()) == [(4, 5, "+U", "E"), (4, 5, "-U", "e")]
