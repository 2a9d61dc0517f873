"""Subscriptions that are told of rows before their commit (semantics 4.2, `eventual`)."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import PermissionDenied
from lakelog.format.tables.table import TableInfo
from lakelog.log.memory.producing import MemoryUncommittedSender
from lakelog.log.protocol import Log
from lakelog.log.records import EncodedRecords
from lakelog.reads.streams.uncommitted import keyed_table as uncommitted_keyed_table
from lakelog.reads.streams.uncommitted.attempts import OpenAttempts
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.integration.sdk.uncommitted_streams import (
    OPTIONS,
    SCHEMA,
    SOON_S,
    Folder,
    make,
    read_rows,
    read_values,
    rows,
    send,
)
from tests.support.log.log_brokers import FakeBrokers
from tests.support.log.logging_tables import open_metastore

pytestmark = pytest.mark.usefixtures("polls_often")


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


def test_rows_are_emitted_before_their_commit(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog)
    table.upsert(rows(1, 2))
    with table.subscribe() as stream:
        emitted = Folder(stream)
        emitted.read_until(lambda: len(emitted.rows) == 2)
        tx = send(catalog, rows(2, 3, value=5), table)
        emitted.read_until(lambda: len(emitted.rows) == 3)
        assert emitted.rows == {1: (1, 1, "x"), 2: (2, 5, "x"), 3: (3, 5, "x")}
        assert table.scan().count() == 2
        emitted.emitted.clear()
        # All keys of the commit are known, so no changes are read for it.
        monkeypatch.setattr("lakelog.reads.streams.table.plan_changes", None)
        tx.commit()
        emitted.read_until(lambda: stream.position == 2)
        assert emitted.emitted == [], "nothing is left to tell"
    assert emitted.rows == read_rows(table)


def test_an_attempt_that_is_given_up_is_taken_back(catalog: Catalog) -> None:
    table = make(catalog)
    table.upsert(rows(1, 2))
    with table.subscribe() as stream:
        emitted = Folder(stream)
        emitted.read_until(lambda: len(emitted.rows) == 2)
        tx = send(catalog, rows(2, 3, value=5), table)
        emitted.read_until(lambda: len(emitted.rows) == 3)
        tx.abandon()
        emitted.read_until(lambda: len(emitted.rows) == 2)
        assert emitted.rows == read_rows(table)
        assert {each for each, _, _ in emitted.emitted[2:]} == {0}
        # What is written behind it is told as if nothing had been.
        table.upsert(rows(2, value=9))
        emitted.read_until(lambda: stream.position == 2)
    assert emitted.rows == read_rows(table)


def test_without_asking_what_became_of_attempts_nothing_is_taken_back(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test before."""
    monkeypatch.setattr(OpenAttempts, "find_given_up", lambda self, baseline_until: [])
    table = make(catalog)
    with table.subscribe() as stream:
        emitted = Folder(stream)
        tx = send(catalog, rows(3), table)
        emitted.read_until(lambda: len(emitted.rows) == 1)
        tx.abandon()
        table.upsert(rows(1))
        emitted.read_until(lambda: stream.position == 1)
        assert stream.read(0.3) is None
    assert emitted.rows != read_rows(table)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("sequence", [False, True])
def test_of_two_writers_of_a_key_the_table_decides(catalog: Catalog, first: int, sequence: bool) -> None:
    table = make(catalog, {"sequence.field": "v"} if sequence else {})
    with table.subscribe() as stream:
        emitted = Folder(stream)
        open_writes = [send(catalog, rows(1, 2, value=7), table), send(catalog, rows(2, 3, value=6), table)]
        emitted.read_until(lambda: len(emitted.rows) == 3)
        assert emitted.rows[2][1] == (7 if sequence else 6)
        open_writes[first].commit()
        emitted.read_until(lambda: stream.position == 1)
        assert emitted.rows[2][1] == (7, 6)[first], "what is committed wins over what is open and older"
        open_writes[1 - first].commit()
        emitted.read_until(lambda: stream.position == 2)
    assert emitted.rows == read_rows(table)


def test_deletes_are_emitted_before_their_commit(catalog: Catalog) -> None:
    table = make(catalog)
    table.upsert(rows(1, 2))
    with table.subscribe() as stream:
        emitted = Folder(stream)
        emitted.read_until(lambda: len(emitted.rows) == 2)
        gone = rows(1).append_column("_row_kind", pa.array(["-D"]))
        tx = send(catalog, gone, table)
        emitted.read_until(lambda: len(emitted.rows) == 1)
        tx.abandon()
        emitted.read_until(lambda: len(emitted.rows) == 2)
    assert emitted.rows == read_rows(table)


def test_a_reader_that_begins_later_does_not_receive_what_is_over(catalog: Catalog) -> None:
    """Nothing was published, so it reads the log from its beginning on."""
    table = make(catalog)
    table.upsert(rows(1, 2))
    table.upsert(rows(2, value=5))
    send(catalog, rows(3), table).abandon()
    tx = send(catalog, rows(4), table)
    with table.subscribe() as stream:
        emitted = Folder(stream)
        emitted.read_until(lambda: 4 in emitted.rows)
        assert sorted(emitted.emitted) == [(0, "+I", 4), (2, "+I", 1), (2, "+I", 2)]
        tx.commit()
        emitted.read_until(lambda: stream.position == 3)
    assert emitted.rows == read_rows(table)


def test_a_consumer_that_comes_back_receives_again_what_is_open(catalog: Catalog) -> None:
    table = make(catalog)
    table.upsert(rows(1))
    tx = send(catalog, rows(2), table)
    with table.subscribe(consumer_id="c") as stream:
        emitted = Folder(stream)
        emitted.read_until(lambda: 2 in emitted.rows)
    assert [each["snapshot_id"] for each in table.consumers.list().to_pylist()] == [1]
    with table.subscribe(consumer_id="c") as stream:
        emitted = Folder(stream)
        emitted.rows = read_rows(table)
        emitted.read_until(lambda: 2 in emitted.rows)
        tx.commit()
        emitted.read_until(lambda: stream.position == 2)
        assert emitted.emitted == [(0, "+I", 2)]
    with table.subscribe(consumer_id="c") as stream:
        assert stream.read(0.3) is None, "it was confirmed, and the position stands behind it"


def test_what_the_log_does_not_hold_comes_with_its_commit(catalog: Catalog, brokers: FakeBrokers) -> None:
    table = make(catalog)
    with table.subscribe() as stream:
        emitted = Folder(stream)
        brokers.is_away = True
        brokers.cluster.delete_topic(catalog.metastore.get_log(table.uuid).topic)
        table.upsert(rows(1, 2))
        table.upsert(rows(2, value=4))
        emitted.read_until(lambda: stream.position == 2)
        assert emitted.rows == read_rows(table)
        assert {each for each, _, _ in emitted.emitted} == {1, 2}


def test_rows_that_were_sent_in_part_are_emitted_once(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the log lost come with the commit, the others do not come again."""
    table = make(catalog)
    sent = MemoryUncommittedSender.send

    def lose(sender: MemoryUncommittedSender, records: EncodedRecords, attempt_id: str) -> None:
        if records.partition == 0:
            sent(sender, records, attempt_id)
            sent(sender, records, attempt_id)

    monkeypatch.setattr(MemoryUncommittedSender, "send", lose)
    with table.subscribe() as stream:
        emitted = Folder(stream)
        tx = send(catalog, rows(*range(10)), table)
        emitted.read_until(lambda: len(emitted.rows) > 0)
        uncommitted = set(emitted.rows)
        assert uncommitted < set(range(10))
        tx.commit()
        emitted.read_until(lambda: stream.position == 1)
    assert emitted.rows == read_rows(table)
    assert sorted(emitted.emitted) == sorted((0 if key in uncommitted else 1, "+I", key) for key in range(10))


def test_a_projection_and_a_condition_hold_for_uncommitted_rows(catalog: Catalog) -> None:
    table = make(catalog)
    table.upsert(rows(1, 2, value=1))
    with table.subscribe(columns=["w"], filter="v > 3") as stream:
        emitted: list[dict[str, Any]] = []

        def read(until: int) -> None:
            end_s = time.monotonic() + SOON_S
            while len(emitted) < until and time.monotonic() < end_s:
                batch = stream.read(0.05)
                emitted.extend([] if batch is None else batch.data.to_pylist())

        tx = send(catalog, rows(2, 3, value=4), table)
        read(2)
        assert sorted(emitted, key=str) == [{"w": "x", "_row_kind": kind} for kind in ("+I", "+U")]
        tx.abandon()
        read(4)
        assert sorted(emitted[2:], key=str) == [{"w": "x", "_row_kind": kind} for kind in ("-D", "-U")]


def test_rows_of_another_schema_come_with_their_commit(
    catalog: Catalog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog)
    with table.subscribe() as stream:
        emitted = Folder(stream)
        emitted.read_until(lambda: stream.position == 0)
        real = catalog.metastore.get_table_by_uuid

        def alter(table_uuid: str) -> TableInfo:
            info = real(table_uuid)
            return dataclasses.replace(info, schema=dataclasses.replace(info.schema, schema_id=7))

        monkeypatch.setattr(catalog.metastore, "get_table_by_uuid", alter)
        tx = send(catalog, rows(1), table)
        end_s = time.monotonic() + SOON_S
        while "columns have changed" not in caplog.text and time.monotonic() < end_s:
            emitted.read(0.02)
        assert emitted.emitted == []
        tx.commit()
        emitted.read_until(lambda: stream.position == 1)
        assert emitted.emitted == [(1, "+I", 1)]


def test_more_rows_than_are_kept_come_with_their_commit(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uncommitted_keyed_table, "_MAX_ROWS", 5)
    table = make(catalog, {"bucket": "1"})
    with table.subscribe() as stream:
        emitted = Folder(stream)
        small, large = send(catalog, rows(1, 2), table), send(catalog, rows(*range(2, 9), value=2), table)
        emitted.read_until(lambda: len(emitted.rows) == 2)
        large.commit()
        emitted.read_until(lambda: stream.position == 1)
        assert emitted.rows == {1: (1, 1, "x"), **{key: (key, 2, "x") for key in range(2, 9)}}
        small.commit()
        emitted.read_until(lambda: stream.position == 2)
    assert emitted.rows == read_rows(table)


def test_an_overwrite_settles_what_it_took_away(catalog: Catalog) -> None:
    table = make(catalog)
    table.upsert(rows(1, 2))
    with table.subscribe(options={"streaming-read-overwrite": "true"}) as stream:
        emitted = Folder(stream)
        emitted.read_until(lambda: len(emitted.rows) == 2)
        tx = send(catalog, rows(2, 3, value=5), table)
        emitted.read_until(lambda: len(emitted.rows) == 3)
        table.overwrite(rows(7))
        emitted.read_until(lambda: stream.position == 2)
        assert set(emitted.rows) == {3, 7}
        tx.abandon()
        emitted.read_until(lambda: set(emitted.rows) == {7})
    assert emitted.rows == read_rows(table)


def test_rows_of_an_append_table_are_emitted_as_they_come_and_once(catalog: Catalog) -> None:
    table = make(catalog, keyed=False)
    table.append(rows(1))
    with table.subscribe() as stream:
        assert read_values(stream, 1) == [(1, 1)]
        tx = send(catalog, rows(2, 2, 3), table)
        assert read_values(stream, 3) == [(0, 2), (0, 2), (0, 3)]
        tx.commit()
        table.append(rows(4))
        ((_, key),) = read_values(stream, 1)
        assert key == 4
        assert stream.read(0.2) is None
        assert stream.position == 3


def test_an_append_table_emits_all_of_a_commit_of_which_it_may_have_missed_rows(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog, keyed=False)
    sent = MemoryUncommittedSender.send

    def lose(sender: MemoryUncommittedSender, records: EncodedRecords, attempt_id: str) -> None:
        half = EncodedRecords(0, None, records.values[:2], records.kinds[:2], records.indexes[:2])
        sent(sender, half, attempt_id)
        sent(sender, half, attempt_id)

    monkeypatch.setattr(MemoryUncommittedSender, "send", lose)
    with table.subscribe() as stream:
        tx = send(catalog, rows(1, 2, 3), table)
        assert read_values(stream, 2) == [(0, 1), (0, 2)], "what comes twice is told once"
        tx.commit()
        assert read_values(stream, 3) == [(1, 1), (1, 2), (1, 3)], "at least once"


def test_rows_of_unknown_number_come_with_their_commit(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of Spark's tasks, which may run twice: whether all rows of an append table have come is not known."""
    sent = MemoryUncommittedSender.send

    def number(sender: MemoryUncommittedSender, records: EncodedRecords, attempt_id: str) -> None:
        sent(sender, dataclasses.replace(records, indexes=records.indexes + (1 << 36)), attempt_id)

    monkeypatch.setattr(MemoryUncommittedSender, "send", number)
    table = make(catalog, keyed=False)
    with table.subscribe() as stream:
        tx = send(catalog, rows(1, 2), table)
        assert stream.read(0.3) is None
        tx.commit()
        assert read_values(stream, 2) == [(1, 1), (1, 2)]
        assert stream.read(0.1) is None


def test_together_with_other_tables_rows_come_with_their_commits(catalog: Catalog) -> None:
    table = make(catalog)
    catalog.create_table("shop.items", SCHEMA, primary_key=["k"], options=OPTIONS)
    with catalog.subscribe(["shop.orders", "shop.items"]) as stream:
        tx = send(catalog, rows(1), table)
        assert stream.read(0.3) is None
        tx.commit()
        batch = stream.read(SOON_S)
        assert batch is not None
        assert batch.snapshot_id == 1


def test_a_reader_without_rights_to_the_log_reads_the_commits_unless_the_log_was_requested(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(catalog)

    def refuse(options: Mapping[str, str]) -> Log:
        raise PermissionDenied("No such secret.")

    readers = Catalog(catalog.metastore, LocationStores(), open_log=refuse).table("shop.orders")
    with readers.subscribe() as stream:
        tx = send(catalog, rows(1), table)
        tx.commit()
        emitted = Folder(stream)
        emitted.read_until(lambda: stream.position == 1)
        assert emitted.emitted == [(1, "+I", 1)]
        assert "No such secret" in caplog.text
    with (
        readers.subscribe(options={"streaming-read-mode": "log"}) as stream,
        pytest.raises(PermissionDenied, match="No such secret"),
    ):
        Folder(stream).read_until(lambda: False)


def test_what_listens_ends_with_the_subscription(catalog: Catalog) -> None:
    table = make(catalog)
    with table.subscribe() as stream:
        tx = send(catalog, rows(1), table)
        emitted = Folder(stream)
        emitted.read_until(lambda: 1 in emitted.rows)
    tx.abandon()
    names = {thread.name for thread in threading.enumerate()}
    assert not names & {"lakelog-watch", "lakelog-log-tail", "lakelog-subscribe"}
