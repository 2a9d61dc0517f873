"""Subscriptions to rows before their commit, whose writers die: nothing that is committed is hidden for long."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakelog.format.merge import uncommitted_overlay
from lakelog.log.memory import MemoryCluster, MemoryLog
from lakelog.reads.streams.log.tail import Arrived
from lakelog.reads.streams.subscription import Subscription
from lakelog.reads.streams.uncommitted.events import UncommittedEvents
from lakelog.reads.streams.uncommitted.keyed_table import KeyedUncommittedTable
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.transaction import Transaction
from lakelog.storage.objects.stores import LocationStores
from lakelog.writes import uncommitted_sending
from lakelog.writes.heartbeats import Heartbeats
from lakelog.writes.uncommitted_sending import UncommittedChannel
from metastore.logs import publishing
from metastore.store.publishing import AttemptSeen
from tests.integration.sdk.uncommitted_streams import SOON_S, Folder, die, make, read_rows, rows, send
from tests.support.log.logging_tables import open_metastore

pytestmark = pytest.mark.usefixtures("polls_often")
NEVER_MS = 10**9
PROTECTIONS = ("order", "abort", "silence")


@pytest.fixture
def catalog(warehouse: Path) -> Iterator[Catalog]:
    cluster = MemoryCluster()
    metastore = open_metastore(warehouse, cluster)
    catalog = Catalog(metastore, LocationStores(), open_log=lambda options: MemoryLog(cluster))
    catalog.create_database("shop")
    yield catalog
    metastore.close()


def is_at(stream: Subscription, position: int) -> bool:
    return stream.position == position


def leave_only(monkeypatch: pytest.MonkeyPatch, protections: Collection[str]) -> None:
    """Control: takes the other protections away."""
    judge = publishing._judge

    def judge_by_state(seen: AttemptSeen) -> object:
        return judge(replace(seen, is_over=False))

    if "order" not in protections:
        monkeypatch.setattr(uncommitted_overlay, "_find_newer", lambda records, opened_ms: pa.array([], pa.binary()))
    if "abort" not in protections:
        monkeypatch.setattr("metastore.commits.group._abort_rivals", lambda request, state: None)
        monkeypatch.setattr(publishing, "_judge", judge_by_state)
    monkeypatch.setattr(publishing, "SILENT_MS", 300 if "silence" in protections else NEVER_MS)


@pytest.mark.parametrize("sequence", [False, True], ids=["keyed", "sequence"])
@pytest.mark.parametrize("protections", [PROTECTIONS, *((each,) for each in PROTECTIONS), ()], ids=str)
def test_what_is_committed_after_a_writer_died_is_shown_and_stays(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, protections: Collection[str], sequence: bool
) -> None:
    """Each protection alone leads to the table in the end; without any the dead attempt's row comes back."""
    leave_only(monkeypatch, protections)
    table = make(catalog, {"sequence.field": "v"} if sequence else {})
    table.upsert(rows(1, 2))
    with table.subscribe() as stream:
        emitted = Folder(stream)
        emitted.read_until(lambda: len(emitted.rows) == 2)
        die(send(catalog, rows(2, 3, value=9), table, "w", 1))
        emitted.read_until(lambda: 3 in emitted.rows and emitted.rows[2][1] == 9)
        send(catalog, rows(2, 3, value=5), table, "w", 1).commit()
        emitted.read_until(lambda: stream.position == 2)
        if "order" in protections:
            assert emitted.rows == read_rows(table), "with the commit itself"
        for value in (6, 7):
            table.upsert(rows(2, value=value))
            emitted.read_until(partial(is_at, stream, value - 3))
            if "order" in protections:
                assert emitted.rows[2][1] == value
        if protections:
            emitted.read_until(lambda: emitted.rows == read_rows(table))
        end_s = time.monotonic() + 0.6
        while time.monotonic() < end_s:
            emitted.read(0.05)
        assert (emitted.rows == read_rows(table)) is bool(protections)


@pytest.mark.parametrize("aborts", [True, False], ids=["protected", "control"])
def test_keys_that_the_retry_does_not_have_are_taken_back_with_its_commit(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, aborts: bool
) -> None:
    leave_only(monkeypatch, ["order", "abort"] if aborts else ["order"])
    table = make(catalog)
    with table.subscribe() as stream:
        emitted = Folder(stream)
        die(send(catalog, rows(1, 2), table, "w", 1))
        emitted.read_until(lambda: len(emitted.rows) == 2)
        send(catalog, rows(1), table, "w", 1).commit()
        emitted.read_until(lambda: stream.position == 1)
        if aborts:
            emitted.read_until(lambda: len(emitted.rows) == 1)
        assert stream.read(0.3) is None
        assert (emitted.rows == read_rows(table)) is aborts


@pytest.mark.parametrize("aborts", [True, False], ids=["protected", "control"])
def test_a_writer_that_takes_the_name_over_ends_what_its_predecessor_sent(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, aborts: bool
) -> None:
    leave_only(monkeypatch, ["order", "abort"] if aborts else ["order"])

    async def leave(self: object, writer: str, epoch: int) -> None:
        pass

    if not aborts:
        monkeypatch.setattr("metastore.memory.store.MemoryTransaction.abort_fenced_attempts", leave)
    table = make(catalog)
    catalog.register_writer("w")
    with table.subscribe() as stream:
        emitted = Folder(stream)
        die(send(catalog, rows(1, 2), table, "w", 1))
        emitted.read_until(lambda: len(emitted.rows) == 2)
        catalog.register_writer("w")
        if aborts:
            emitted.read_until(lambda: not emitted.rows)
        assert stream.read(0.3) is None
        assert (emitted.rows == {}) is aborts


def test_a_reader_that_begins_again_is_shown_no_older_row_over_a_committed_one(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the record of the older row comes to it after the state at its position."""
    leave_only(monkeypatch, ["order"])
    table = make(catalog, {"bucket": "1"})
    die(send(catalog, rows(1, 2, value=5), table))
    table.upsert(rows(1, value=6))
    with table.subscribe() as stream:
        emitted = Folder(stream)
        emitted.read_until(lambda: 2 in emitted.rows)
        assert emitted.rows == {1: (1, 6, "x"), 2: (2, 5, "x")}


def test_control_of_readers_that_begin_again(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_only(monkeypatch, [])
    table = make(catalog, {"bucket": "1"})
    die(send(catalog, rows(1, 2, value=5), table))
    table.upsert(rows(1, value=6))
    with table.subscribe() as stream:
        emitted = Folder(stream)
        emitted.read_until(lambda: 2 in emitted.rows)
        assert emitted.rows == {1: (1, 5, "x"), 2: (2, 5, "x")}


@pytest.mark.parametrize("is_noticed", [True, False], ids=["protected", "control"])
@pytest.mark.parametrize("sends", [True, False], ids=["sent", "unsent"])
def test_a_record_that_comes_after_a_newer_snapshot_is_not_shown_over_it(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, is_noticed: bool, sends: bool
) -> None:
    """The reader is behind with the log, while snapshots come at once."""
    leave_only(monkeypatch, ["order"])
    if not is_noticed:
        none = np.zeros(1, bool)
        monkeypatch.setattr(KeyedUncommittedTable, "_are_late", lambda self, arrived, indices: none)
    table = make(catalog, {"bucket": "1"})
    arrived, may_go_on = threading.Event(), threading.Event()
    may_go_on.set()
    put = UncommittedEvents._put

    def put_later(events: UncommittedEvents, records: Arrived) -> None:
        arrived.set()
        may_go_on.wait(SOON_S)
        # Sent rows are recognized by their place in the log, others by when they were received.
        put(events, replace(records, received_s=math.inf) if sends else records)

    monkeypatch.setattr(UncommittedEvents, "_put", put_later)
    with table.subscribe() as stream:
        emitted = Folder(stream)
        die(send(catalog, rows(7), table))
        emitted.read_until(lambda: 7 in emitted.rows)
        may_go_on.clear()
        arrived.clear()
        die(send(catalog, rows(1, value=5), table))
        assert arrived.wait(SOON_S)
        if not sends:
            monkeypatch.setattr(catalog._writes.uncommitted_senders, "begin", lambda *_: None)
        table.upsert(rows(1, value=6))
        emitted.read_until(lambda: stream.position == 1)
        may_go_on.set()
        if sends:
            die(send(catalog, rows(8), table))
            emitted.read_until(lambda: 8 in emitted.rows)
        end_s = time.monotonic() + 0.4
        while time.monotonic() < end_s:
            emitted.read(0.05)
        assert (emitted.rows[1][1] == 6) is is_noticed


def beat_often(catalog: Catalog, pause_s: float = 0.05) -> None:
    catalog._writes.uncommitted_senders._heartbeats._pause_s = pause_s


@pytest.mark.parametrize("beats", [True, False], ids=["alive", "dead"])
def test_a_writer_that_is_alive_is_shown_for_as_long_as_it_takes(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, beats: bool
) -> None:
    monkeypatch.setattr(publishing, "SILENT_MS", 1500)
    beat_often(catalog)
    table = make(catalog)
    with table.subscribe() as stream:
        emitted = Folder(stream)
        tx = send(catalog, rows(1, 2), table)
        emitted.read_until(lambda: len(emitted.rows) == 2)
        if not beats:
            die(tx)
            emitted.read_until(lambda: not emitted.rows)
            return
        assert stream.read(3.0) is None
        assert len(emitted.rows) == 2
        tx.commit()
        emitted.read_until(lambda: stream.position == 1)
        assert emitted.emitted == [(0, "+I", 1), (0, "+I", 2)]


def test_a_transaction_that_was_forgotten_is_as_good_as_dead(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "SILENT_MS", 1000)
    beat_often(catalog)
    table = make(catalog)
    with table.subscribe() as stream:
        emitted = Folder(stream)

        def forget() -> None:
            tx = send(catalog, rows(1), table)
            emitted.read_until(lambda: len(emitted.rows) == 1)
            # As with a transaction that was not: no warning here.
            tx._ended = True

        forget()
        emitted.read_until(lambda: not emitted.rows)


def test_a_writer_that_was_taken_for_dead_may_go_on_and_commit(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "SILENT_MS", 300)
    table = make(catalog)
    with table.subscribe() as stream:
        emitted = Folder(stream)
        tx = send(catalog, rows(1), table)
        emitted.read_until(lambda: 1 in emitted.rows)
        emitted.read_until(lambda: not emitted.rows)
        monkeypatch.setattr(publishing, "SILENT_MS", NEVER_MS)
        more(tx, rows(2))
        emitted.read_until(lambda: 2 in emitted.rows)
        assert 1 not in emitted.rows, "it comes with the commit"
        tx.commit()
        emitted.read_until(lambda: stream.position == 1)
    assert emitted.rows == read_rows(table)


def more(tx: Transaction, data: pa.Table) -> None:
    tx.table("shop.orders").upsert(data)
    for write in tx._table_writes.values():
        assert write.uncommitted is not None
        assert write.uncommitted.finish() is not None


@pytest.mark.parametrize("renews", [True, False], ids=["protected", "control"])
def test_a_transaction_that_sends_long_after_it_began_is_shown_at_once(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, renews: bool
) -> None:
    monkeypatch.setattr(publishing, "SILENT_MS", 2000)
    monkeypatch.setattr(uncommitted_sending, "HEARTBEAT_S", 0.1)
    beat_often(catalog, 60.0)
    if not renews:
        monkeypatch.setattr(UncommittedChannel, "call", lambda self, work: None)
    table = make(catalog)
    with table.subscribe() as stream:
        emitted = Folder(stream)
        tx = catalog.transaction()
        tx.table("shop.orders")
        time.sleep(2.5)
        more(tx, rows(1))
        if renews:
            emitted.read_until(lambda: 1 in emitted.rows)
        else:
            assert stream.read(0.3) is None
        tx.commit()
        emitted.read_until(lambda: stream.position == 1)
    assert emitted.rows == read_rows(table)


def test_writes_that_are_over_before_the_first_renewal_make_no_call(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed: list[object] = []
    monkeypatch.setattr(Heartbeats, "renew", lambda self, attempt_ids: renewed.append(attempt_ids))
    beat_often(catalog, 3600.0)
    table = make(catalog)
    for number in range(20):
        table.upsert(rows(number))
    assert renewed == []
    assert table.scan().count() == 20
