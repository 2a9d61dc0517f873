"""Which tables the compactor works for, while they come and go."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

from compactor.exit_status import ExitStatus, to_exit_status
from compactor.tables import NamedTables
from lakelog.errors import NotFound, Unavailable
from lakelog.format.tables.table import TableName

A, B = TableName("shop", "a"), TableName("shop", "b")


class FakeMetastore:
    """Knows some tables."""

    def __init__(self, *names: TableName) -> None:
        self.uuids = {name: f"uuid of {name}" for name in names}
        self.error: Exception | None = None

    def get_table(self, name: TableName) -> Any:
        if self.error is not None:
            raise self.error
        if name not in self.uuids:
            raise NotFound(f"Table '{name}' does not exist.", reason="TABLE_NOT_FOUND")

        class Info:
            table_uuid = self.uuids[name]

        return Info


def make(metastore: Any, *names: TableName) -> tuple[NamedTables, list[tuple[str, str]]]:
    """The tables, and what is logged of them."""
    logged: list[tuple[str, str]] = []

    def keep(_logger: Any, level: str, event: Any) -> Any:
        logged.append((level, f"{event['event']}: {event['table']}" if "table" in event else event["event"]))
        raise structlog.DropEvent

    log: Any = structlog.wrap_logger(None, processors=[keep])
    return NamedTables(metastore, names, log), logged


def test_no_name_is_all_tables() -> None:
    assert make(FakeMetastore(A))[0].find() == []


def test_all_must_exist_at_the_start() -> None:
    metastore = FakeMetastore(B)
    tables, logged = make(metastore, A, B, TableName("shop", "c"))
    metastore.error = Unavailable("away")
    with pytest.raises(Unavailable):
        tables.find()
    # A metastore that did not answer is no start.
    metastore.error = None
    with pytest.raises(NotFound, match=r"^--tables names shop\.a, shop\.c, which do not exist\.") as missing:
        tables.find()
    assert to_exit_status(missing.value) is ExitStatus.MISSING
    assert logged == []
    with pytest.raises(NotFound, match=r"^--tables names shop\.a, which does not exist\."):
        make(metastore, A)[0].find()


def test_what_is_dropped_later_is_left_out_and_reported_once() -> None:
    metastore = FakeMetastore(A, B)
    tables, logged = make(metastore, A, B)
    assert tables.find() == ["uuid of shop.a", "uuid of shop.b"]
    del metastore.uuids[B]
    assert [tables.find() for _ in range(3)] == [["uuid of shop.a"]] * 3
    dropped = "table was dropped and is left out, until one of its name is made"
    assert logged == [("warning", f"{dropped}: shop.b")]
    del metastore.uuids[A]
    assert [tables.find() for _ in range(3)] == [None] * 3
    assert logged[1:] == [
        ("warning", f"{dropped}: shop.a"),
        ("warning", "all tables of --tables were dropped, waiting for one of them to be made again"),
    ]
    metastore.uuids[B] = "another uuid"
    assert [tables.find() for _ in range(2)] == [["another uuid"]] * 2
    assert logged[3:] == [("info", "table of this name was made again, its jobs are done: shop.b")]
    del metastore.uuids[B]
    assert tables.find() is None
    assert len(logged) == 6
