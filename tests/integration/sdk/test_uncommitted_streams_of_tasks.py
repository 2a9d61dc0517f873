"""Subscriptions are told of rows that Spark's tasks have sent, as these number them, and of each key what stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.sdk.transaction import Transaction
from lakelog.spark.executor.uncommitted import TaskChannels, plan_uncommitted, to_place
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.integration.sdk.uncommitted_streams import Folder, make, read_rows, read_values, rows
from tests.support.log.log_brokers import FakeBrokers
from tests.support.log.logging_tables import open_metastore

pytestmark = pytest.mark.usefixtures("polls_often")


@pytest.fixture
def catalog(warehouse: Path, brokers: FakeBrokers) -> Iterator[Catalog]:
    metastore: InProcessMetastore = open_metastore(warehouse, brokers.make())
    catalog = Catalog(metastore, LocationStores(), open_log=brokers.open)
    catalog.create_database("shop")
    yield catalog
    metastore.close()


def send_by_tasks(
    catalog: Catalog, brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch, table: Table, *parts: pa.Table
) -> Transaction:
    """Writes parts by a task each, of which the first runs twice; the commit is held back."""
    tx = catalog.transaction()
    monkeypatch.setattr(catalog._writes.uncommitted_senders, "begin", lambda *_: None)
    channels = TaskChannels(brokers.open, SystemClock(), wait_s=60)
    task = plan_uncommitted(catalog.metastore, table.info)
    assert task is not None
    target = tx.table("shop.orders")
    for number, part in enumerate([parts[0], *parts]):
        uncommitted = channels.begin(task, to_place(tx._attempt.attempt_id, max(number - 1, 0), number))
        assert uncommitted is not None
        uncommitted.send(part, None)
        assert uncommitted.finish() is not None
        if number:
            target.upsert(part) if table.info.schema.primary_key else target.append(part)
    return tx


def test_rows_of_tasks_are_emitted_before_their_commit(
    catalog: Catalog, brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog)
    table.upsert(rows(1, 2))
    with table.subscribe() as stream:
        emitted = Folder(stream)
        emitted.read_until(lambda: len(emitted.rows) == 2)
        tx = send_by_tasks(catalog, brokers, monkeypatch, table, rows(2, 3, value=5), rows(4, 5, value=6))
        emitted.read_until(lambda: len(emitted.rows) == 5)
        assert read_rows(table).keys() == {1, 2}
        emitted.emitted.clear()
        tx.commit()
        emitted.read_until(lambda: stream.position == 2)
        assert emitted.emitted == [], "what came twice tells nothing"
    assert emitted.rows == read_rows(table)


def test_rows_of_tasks_that_are_given_up_are_taken_back(
    catalog: Catalog, brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog)
    table.upsert(rows(1, 2))
    with table.subscribe() as stream:
        emitted = Folder(stream)
        emitted.read_until(lambda: len(emitted.rows) == 2)
        tx = send_by_tasks(catalog, brokers, monkeypatch, table, rows(2, 3, value=5), rows(4, value=6))
        emitted.read_until(lambda: len(emitted.rows) == 4)
        tx.abandon()
        emitted.read_until(lambda: emitted.rows == read_rows(table))


def test_rows_of_an_append_table_come_once_though_a_task_ran_twice(
    catalog: Catalog, brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether all rows have come, nobody can tell by numbers of tasks: so they come with their commit."""
    table = make(catalog, keyed=False)
    with table.subscribe() as stream:
        tx = send_by_tasks(catalog, brokers, monkeypatch, table, rows(1, 2), rows(3))
        assert stream.read(0.3) is None
        tx.commit()
        assert sorted(read_values(stream, 3)) == [(1, 1), (1, 2), (1, 3)]
        assert stream.read(0.1) is None
