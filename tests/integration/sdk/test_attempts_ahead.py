"""Writes whose attempts were opened ahead: what happened to the table or the attempt in between shows all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.errors import CommitConflict, NotFound
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.sdk.transaction import Transaction, TransactionTable
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.support.tables.data_files import data_files

from .shop import make_orders, names, orders


def rows(*ids: int, name: str = "x") -> pa.Table:
    return orders(*((number, name, "1.00") for number in ids))


class StoppedClock(SystemClock):
    """However slow the machine is, attempts do not grow old."""

    def monotonic_s(self) -> float:
        return 0.0


@pytest.fixture
def catalog(metastore: InProcessMetastore) -> Catalog:
    catalog = Catalog(metastore, LocationStores(), clock=StoppedClock())
    catalog.create_database("shop")
    return catalog


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """With attempts open ahead: four writes in a row leave three of four."""
    table = make_orders(catalog)
    for number in range(4):
        table.upsert(rows(number))
    assert len(waiting(catalog, table)) == 3
    return table


@pytest.fixture
def other(metastore: InProcessMetastore, table: Table) -> Catalog:
    """Another client of the same metastore."""
    return Catalog(metastore, LocationStores())


def waiting(catalog: Catalog, table: Table) -> list[str]:
    opened = catalog._writes.attempts_ahead._ahead
    return [attempt.attempt_id for key in opened if key.table_uuid == table.uuid for attempt in opened[key].attempts]


def test_a_table_that_another_client_dropped_takes_no_write(table: Table, other: Catalog, warehouse: Path) -> None:
    before = data_files(warehouse)
    other.drop_table("shop.orders")
    for _ in range(2):
        with pytest.raises(NotFound, match="was dropped since this handle was made"):
            table.upsert(rows(9))
    assert data_files(warehouse) == before


def test_an_attempt_that_was_collected_is_not_committed(
    catalog: Catalog, table: Table, metastore: InProcessMetastore, warehouse: Path
) -> None:
    """C4, with a collector that waits for nothing."""
    before = data_files(warehouse)
    for attempt_id in waiting(catalog, table):
        metastore.abandon_attempt(attempt_id)
    with pytest.raises(CommitConflict, match="was given up") as error:
        table.upsert(rows(9))
    assert error.value.metadata["retry"] == "replan"
    assert data_files(warehouse) == before
    table.upsert(rows(9))
    assert sorted(names(table)) == [0, 1, 2, 3, 9]


def test_a_delete_goes_by_the_options_of_its_moment(table: Table, other: Catalog) -> None:
    other.table("shop.orders").alter(set={"ignore-delete": "true"})
    table.delete(rows(0))
    assert sorted(names(table)) == [0, 1, 2, 3]


def test_control_a_delete_with_an_attempt_opened_ahead_would_not(
    table: Table, other: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Transaction.write_to

    def take_ahead(transaction: Transaction, table_uuid: str, **_: Any) -> TransactionTable:
        return take(transaction, table_uuid, only_adds=True)

    other.table("shop.orders").alter(set={"ignore-delete": "true"})
    monkeypatch.setattr(Transaction, "write_to", take_ahead)
    table.delete(rows(0))
    assert sorted(names(table)) == [1, 2, 3]


def test_what_this_client_altered_holds_for_its_next_write(table: Table, warehouse: Path) -> None:
    """Also of rows that only add: a file as small as possible shows it."""
    table.alter(set={"target-file-size": "1 kb", "file.compression": "none"})
    before = set(data_files(warehouse))
    table.upsert(rows(*range(100), name="x" * 1000))
    assert len(set(data_files(warehouse)) - before) > 1
