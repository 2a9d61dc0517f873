"""`lakelog log verify` of logs whose records are sent before their commit, against what writers and publishers did."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.errors import Unavailable
from lakelog.log.columns import take_fetched
from lakelog.log.memory import MemoryLog
from lakelog.log.memory.reader import MemoryReader
from lakelog.log.records import FetchedRecords
from lakelog.log.tally import LogFindings
from lakelog.sdk.maintenance.log_verification import verify_log
from lakelog.sdk.tables.table import Table
from tests.support.log.log_world import World, rows

EVENTUAL = {"log.consistency": "eventual"}


def verify(world: World, table: Table) -> LogFindings:
    info = world.metastore.get_log(table.uuid)
    store = world.catalog.open_store(world.metastore.get_table_by_uuid(table.uuid))
    return verify_log(world.metastore, info, MemoryLog(world.cluster), store, SystemClock())


@pytest.mark.parametrize("mode", ["all", "upsert"])
@pytest.mark.parametrize("encoding", ["debezium-json", "json"])
def test_what_writers_send_is_what_their_commits_bring(world: World, mode: str, encoding: str) -> None:
    table, publisher = world.make(
        "shop.orders", True, **EVENTUAL, **{"bucket": "3", "log.changelog-mode": mode, "log.format": encoding}
    )
    draw = Random(3)
    for number in range(12):
        count = draw.randrange(1, 40)
        data = rows(*((draw.randrange(9), number) for _ in range(count)))
        kinds = [draw.choice(["+I", "-U", "+U", "-D"]) for _ in range(count)]
        # What counts as not sent is sent by the publisher.
        world.refuses = Unavailable("away") if number == 5 else None
        written = world.open_catalog().table("shop.orders") if number == 5 else table
        written.write(data.append_column("_row_kind", pa.array(kinds)))
    publisher.publish()
    sent = [each.sent_offsets is not None for each in world.metastore.list_snapshots(table.uuid).snapshots]
    assert sent.count(False) == 1
    found = verify(world, table)
    assert (found.is_fine, found.lost, found.foreign, found.torn) == (True, 0, 0, ()), found
    assert (found.duplicates, found.compacted, found.snapshots) == (0, 0, 12)
    assert found.rows <= found.records


def test_what_is_given_up_or_open_is_reported_and_not_wrong(world: World) -> None:
    table, publisher = world.make("shop.orders", False, **EVENTUAL)
    table.append(rows((1, 1), (2, 2)))
    writes = [world.open_catalog().transaction() for _ in range(2)]
    for tx, count in zip(writes, (3, 2), strict=True):
        tx.table("shop.orders").append(rows(*((key, 0) for key in range(count))))
        uncommitted = tx._table_writes[table.uuid].uncommitted
        assert uncommitted is not None
        assert uncommitted.finish() is not None
    given_up, waiting = writes
    given_up.abandon()
    publisher.publish()
    found = verify(world, table)
    assert found.is_fine
    assert (found.records, found.rows, found.taken_back, found.uncommitted, found.earlier) == (7, 2, 3, 2, 0)
    waiting.abandon()
    assert (verify(world, table).taken_back, verify(world, table).uncommitted) == (5, 0)


def test_rows_that_are_missing_are_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table, publisher = world.make("shop.orders", True, **EVENTUAL, **{"log.changelog-mode": "all"})
    for value in range(3):
        table.upsert(rows((1, value), (2, value)))
    publisher.publish()
    assert verify(world, table).lost == 0
    fetch = MemoryReader.fetch

    def leave_out(reader: MemoryReader, max_records: int, timeout_s: float) -> FetchedRecords:
        records = fetch(reader, max_records, timeout_s)
        return take_fetched(records, np.flatnonzero(records.offsets != 3))

    monkeypatch.setattr(MemoryReader, "fetch", leave_out)
    found = verify(world, table)
    assert not found.is_fine
    assert (found.lost, found.torn) == (1, (2,))
    assert "snapshot 2 lacks 1 rows" in found.examples[0]


def test_rows_of_a_bucket_are_missed_in_its_partition(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table, publisher = world.make("shop.orders", True, **EVENTUAL, **{"bucket": "2", "log.changelog-mode": "all"})
    table.upsert(rows(*((key, 0) for key in range(20))))
    publisher.publish()
    assert verify(world, table).lost == 0
    fetch = MemoryReader.fetch

    def misplace(reader: MemoryReader, max_records: int, timeout_s: float) -> FetchedRecords:
        records = fetch(reader, max_records, timeout_s)
        is_first = (records.partitions == 0) & (records.offsets == 0)
        return replace(records, partitions=np.where(is_first, 1, records.partitions).astype(np.int32))

    monkeypatch.setattr(MemoryReader, "fetch", misplace)
    found = verify(world, table)
    assert (found.is_fine, found.lost) == (False, 1)


def test_rows_that_stand_there_twice_are_not_wrong(world: World) -> None:
    table, publisher = world.make("shop.orders", False, **EVENTUAL)
    with world.open_catalog().transaction() as tx:
        tx.table("shop.orders").append(rows((1, 1)))
        table_write = tx._table_writes[table.uuid]
        assert table_write.uncommitted is not None
        assert table_write.uncommitted.finish() is not None
        # Whether all stands there is not known any more.
        table_write.uncommitted._is_whole = False
    publisher.publish()
    found = verify(world, table)
    assert (found.is_fine, found.records, found.rows, found.duplicates) == (True, 2, 1, 1)


def test_snapshots_from_before_the_log_restarted_are_not_looked_at(world: World) -> None:
    table, publisher = world.make("shop.orders", False, **EVENTUAL)
    table.append(rows((1, 1)))
    publisher.publish()
    world.metastore.restart_log(table.uuid)
    table = world.open_catalog().table("shop.orders")
    table.append(rows((2, 2), (3, 3)))
    publisher.close()
    publisher.publish()
    found = verify(world, table)
    assert (found.is_fine, found.rows, found.earlier) == (True, 2, 1), found
