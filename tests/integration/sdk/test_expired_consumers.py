"""Consumers that expired, and readers that closed (semantics 5.5, 5.6)."""

from __future__ import annotations

import os
import socket
import time

import pytest

from lakelog.errors import NotFound, SnapshotExpired
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

from .shop import orders
from .streaming import make_history, rows


def expire_to(catalog: Catalog, table: Table) -> None:
    """Has the consumers of a table expire, and then all but its newest snapshot."""
    time.sleep(0.6)
    table.expire_snapshots(older_than=1 << 52, retain_last=1)


def test_a_consumer_that_has_expired_goes_on_as_its_next_subscription_says(catalog: Catalog) -> None:
    table = make_history(catalog, **{"consumer.expiration-time": "500 ms"})
    with table.subscribe(consumer_id="etl", options={"scan.snapshot-id": 1}) as stream:
        rows(stream, 2)
        stream.commit()
    time.sleep(0.6)
    assert table.consumers.list().select(["snapshot_id", "holder", "expired"]).to_pylist() == [
        {"snapshot_id": 1, "holder": None, "expired": True}
    ]
    # Nothing has gone: it goes on where it was.
    with table.subscribe(consumer_id="etl", auto_commit=False) as stream:
        assert rows(stream, 2)[0][0] == 2
        assert not table.consumers.list().column("expired")[0].as_py()
    expire_to(catalog, table)
    for _ in range(2):
        with pytest.raises(
            SnapshotExpired,
            match=r"(?s)Consumer 'etl' is at snapshot 1 of .*, but snapshots 3 to 3 are all that is kept.*Reset it.*"
            r"'scan\.expired-position' = 'earliest'",
        ):
            table.subscribe(consumer_id="etl")
        assert table.consumers.list().column("holder").to_pylist() == [None], "nobody reads"
    with table.subscribe(consumer_id="etl", options={"scan.expired-position": "full"}) as stream:
        assert {each[:2] for each in rows(stream, 1)} == {(3, "+I")}
    table.consumers.reset("etl", 3)
    table.upsert(orders((7, "seven", None)))
    table.upsert(orders((8, "eight", None)))
    expire_to(catalog, table)
    # What is left is kept from now on, before the reader has done any of it.
    with table.subscribe(consumer_id="etl", auto_commit=False, options={"scan.expired-position": "earliest"}) as stream:
        assert table.consumers.list().column("snapshot_id").to_pylist() == [4]
        table.upsert(orders((9, "nine", None)))
        table.expire_snapshots(older_than=1 << 52, retain_last=1)
        assert [each[0] for each in rows(stream, 2)] == [5, 6]


def test_a_reader_is_shown_as_long_as_it_reads(catalog: Catalog) -> None:
    table = make_history(catalog)

    def holders() -> list[str | None]:
        found: list[str | None] = table.consumers.list().column("holder").to_pylist()
        return found

    stream = table.subscribe("latest", consumer_id="etl")
    assert holders() == [f"{socket.gethostname()}:{os.getpid()}"]
    stream.close()
    stream.close()
    assert holders() == [None]
    with table.subscribe("latest", consumer_id="etl") as first, table.subscribe("latest", consumer_id="etl") as second:
        first.close()
        assert holders() != [None], "another reads under its name"
        del second
    assert holders() == [None]


def test_who_did_not_come_to_read_is_not_shown_as_a_reader(catalog: Catalog) -> None:
    table = make_history(catalog)
    with pytest.raises(NotFound, match="Snapshot 99"):
        table.subscribe("from-snapshot-full", consumer_id="etl", options={"scan.snapshot-id": 99})
    assert table.consumers.list().select(["id", "holder"]).to_pylist() == [{"id": "etl", "holder": None}]
