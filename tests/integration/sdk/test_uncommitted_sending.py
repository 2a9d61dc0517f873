"""Rows that are sent to the log before their commit (semantics 4.2, `eventual`)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import Unavailable
from lakelog.format.commit.facts import AttemptState
from lakelog.log.memory import MemoryLog
from lakelog.log.memory.producing import MemoryUncommittedSender
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.support.log.log_brokers import FakeBrokers
from tests.support.log.logging_tables import open_metastore

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
OPTIONS = {"log.system": "kafka", "log.consistency": "eventual", "bucket": "2", "log.format": "json"}


@pytest.fixture
def metastore(warehouse: Path, brokers: FakeBrokers) -> Iterator[InProcessMetastore]:
    service = open_metastore(warehouse, brokers.make())
    yield service
    service.close()


@pytest.fixture
def catalog(metastore: InProcessMetastore, brokers: FakeBrokers) -> Catalog:
    catalog = Catalog(metastore, LocationStores(), open_log=brokers.open)
    catalog.create_database("shop")
    return catalog


def make(catalog: Catalog, **more: str) -> Table:
    options = {**OPTIONS, **{key.replace("_", "-"): value for key, value in more.items()}}
    return catalog.create_table("shop.orders", SCHEMA, primary_key=["k"], options=options)


def rows(*keys: int, value: int = 1) -> pa.Table:
    return pa.table({"k": keys, "v": [value] * len(keys)})


def read_topic(catalog: Catalog, table: Table, brokers: FakeBrokers) -> list[tuple[str, int, Any]]:
    """What a plain consumer sees: attempt, key and value of each record, by partition."""
    topic = catalog.metastore.get_log(table.uuid).topic
    reader = MemoryLog(brokers.cluster).open_reader(topic)
    reader.assign(dict.fromkeys(range(2), 0))
    found = reader.fetch(1000, 0)
    assert found.snapshot_ids.null_count == len(found), "the snapshot is not known yet"
    values = [None if value is None else json.loads(value)["v"] for value in found.values.to_pylist()]
    keys = [json.loads(key)["k"] for key in found.keys.to_pylist()]
    attempts = [attempt.decode() for attempt in found.attempts.to_pylist()]
    return sorted(zip(attempts, keys, values, strict=True))


def sent(catalog: Catalog, table: Table) -> list[Mapping[int, int] | None]:
    return [each.sent_offsets for each in catalog.metastore.list_snapshots(table.uuid).snapshots]


def test_rows_are_in_the_log_with_their_attempt(catalog: Catalog, brokers: FakeBrokers) -> None:
    table = make(catalog)
    table.upsert(rows(1, 2, 3, 4))
    table.delete(pa.table({"k": [2]}))
    first, second = catalog.metastore.list_snapshots(table.uuid).snapshots
    found = read_topic(catalog, table, brokers)
    wanted = [*((first.attempt_id, key, 1) for key in (1, 2, 3, 4)), (second.attempt_id, 2, None)]
    assert found == sorted(wanted)
    assert sent(catalog, table)[0] is not None
    ends = sent(catalog, table)[-1]
    assert ends is not None
    assert sum(ends.values()) == 5, "the offset behind the last record of each partition"


def test_rows_are_there_before_the_commit(catalog: Catalog, brokers: FakeBrokers) -> None:
    table = make(catalog)
    with catalog.transaction() as tx:
        tx.table("shop.orders").upsert(rows(1))
        table_write = tx._table_writes[table.uuid]
        assert table_write.uncommitted is not None
        assert table_write.uncommitted.finish() is not None
        assert [key for _, key, _ in read_topic(catalog, table, brokers)] == [1]
        assert table.scan().count() == 0
    assert table.scan().count() == 1


def test_records_of_an_attempt_that_is_given_up_are_known_as_such(catalog: Catalog, brokers: FakeBrokers) -> None:
    table = make(catalog)
    tx = catalog.transaction()
    tx.table("shop.orders").upsert(rows(1))
    table_write = tx._table_writes[table.uuid]
    assert table_write.uncommitted is not None
    assert table_write.uncommitted.finish() is not None
    tx.abandon()
    ((attempt, _, _),) = read_topic(catalog, table, brokers)
    assert catalog.metastore.find_attempts(table.uuid, [attempt])[attempt].state is AttemptState.ABORTED
    assert sent(catalog, table) == []


def test_brokers_that_are_away_make_no_write_fail(catalog: Catalog, brokers: FakeBrokers) -> None:
    table = make(catalog)
    brokers.is_away = True
    table.upsert(rows(1))
    asked = len(brokers.requested)
    table.upsert(rows(2))
    assert len(brokers.requested) == asked, "they are not asked again for a while"
    assert sent(catalog, table) == [None, None]
    assert table.scan().count() == 2


def test_a_sender_that_fails_counts_as_nothing_sent(
    catalog: Catalog, brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog)

    def fail(*_: Any) -> None:
        raise Unavailable("The broker went away.")

    monkeypatch.setattr("lakelog.log.memory.producing.MemoryUncommittedSender.send", fail)
    table.upsert(rows(1))
    assert sent(catalog, table) == [None]


def test_other_tables_send_nothing_uncommitted(catalog: Catalog, brokers: FakeBrokers) -> None:
    table = make(catalog, **{"log.consistency": "transactional"})
    table.upsert(rows(1))
    assert sent(catalog, table) == [None]
    assert read_topic(catalog, table, brokers) == []


def test_an_overwrite_sends_nothing(catalog: Catalog, brokers: FakeBrokers) -> None:
    table = make(catalog)
    table.overwrite(rows(1))
    assert sent(catalog, table) == [None]
    assert read_topic(catalog, table, brokers) == []


def test_a_catalog_that_is_closed_closes_what_sent(
    catalog: Catalog, brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = threading.Event()
    monkeypatch.setattr(MemoryUncommittedSender, "close", lambda sender: closed.set())
    table = make(catalog)
    table.upsert(rows(1))
    info = catalog.metastore.get_table_by_uuid(table.uuid)
    catalog._writes.uncommitted_senders.close()
    assert closed.wait(10)
    # Nor is anything opened again.
    assert catalog._writes.uncommitted_senders.begin(info, "0" * 32) is None
