"""Rows that a real broker brings before their commit."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.log.kafka import open_kafka_log
from lakelog.log.secrets import Secrets
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.logs.brokers import Brokers
from tests.integration.sdk.uncommitted_streams import Folder, make, read_rows, read_values, rows, send
from tests.support.log.logging_tables import open_metastore


@pytest.fixture
def options(kafka_broker: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka_broker, "kafka.topic": f"early-{uuid.uuid4().hex}"}


@pytest.fixture
def catalog(warehouse: Path, kafka_broker: str) -> Iterator[Catalog]:
    brokers = Brokers([tuple(kafka_broker.split(","))], lambda given: open_kafka_log(given, Secrets({})))
    metastore = open_metastore(warehouse, brokers)
    catalog = Catalog(metastore, LocationStores())
    catalog.create_database("shop")
    yield catalog
    catalog.close()
    metastore.close()


def test_rows_are_emitted_before_their_commit_and_taken_back(catalog: Catalog, options: dict[str, str]) -> None:
    table = make(catalog, options)
    table.upsert(rows(1, 2))
    with table.subscribe() as stream:
        emitted = Folder(stream)
        emitted.read_until(lambda: len(emitted.rows) == 2)
        kept = send(catalog, rows(2, 3, value=5), table)
        # Who comes first in one partition may come second in another.
        emitted.read_until(lambda: emitted.rows[2][1] == 5 and len(emitted.rows) == 3)
        lost = send(catalog, rows(3, 4, value=6), table)
        emitted.read_until(lambda: len(emitted.rows) == 4 and emitted.rows[3][1] == 6)
        assert emitted.rows[3] == (3, 6, "x")
        assert table.scan().count() == 2
        lost.abandon()
        emitted.read_until(lambda: len(emitted.rows) == 3)
        assert emitted.rows[3] == (3, 5, "x")
        emitted.emitted.clear()
        kept.commit()
        emitted.read_until(lambda: stream.position == 2)
        assert emitted.emitted == []
    assert emitted.rows == read_rows(table)


def test_an_append_table_is_emitted_as_rows_come(catalog: Catalog, options: dict[str, str]) -> None:
    table = make(catalog, options, keyed=False)
    with table.subscribe() as stream:
        tx = send(catalog, rows(*range(1000)), table)
        assert sorted(read_values(stream, 1000)) == [(0, key) for key in range(1000)]
        tx.commit()
        table.append(rows(-1))
        assert [key for _, key in read_values(stream, 1)] == [-1]
        assert stream.read(0.3) is None
