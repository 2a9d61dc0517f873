"""Batches of a stream reader out of a table's log hold what those out of its files do, whatever becomes of it."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, cast

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog
from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument, PermissionDenied, Unavailable
from lakelog.log.memory import Fault, MemoryCluster, MemoryLog, Step
from lakelog.log.memory.reader import MemoryReader
from lakelog.log.protocol import Log
from lakelog.log.records import FetchedRecords
from lakelog.spark.stream import log_reach, log_span, log_tasks, splits
from lakelog.spark.stream.log_splits import LogSplit
from lakelog.spark.task_errors import TaskFailed
from lakelog.storage.stores import LocationStores
from lakelog.table import Table
from metastore.brokers import Brokers
from metastore.inprocess import InProcessMetastore
from metastore.memory import MemoryStore
from metastore.service import MetastoreService
from metastore.store import Store
from tests.integration.sdk.logging_tables import HandPublisher
from tests.integration.sdk.test_log_streams import SCHEMA, TABLES, fill, make, random_rows
from tests.integration.spark.driven_stream import DrivenStream, Row

Rows = list[tuple[Any, ...]]
START = {"scan.snapshot-id": "1", "metadata-columns": "_snapshot_id,_commit_timestamp"}


class FailsLater:
    """Stands in for fetching, which fails once some records have come."""

    def __init__(self, fetch: Any, at: int = 4) -> None:
        self.fetch, self.at = fetch, at
        self.count = 0

    def __get__(self, reader: Any, kind: Any) -> Any:
        def call(*args: Any) -> Any:
            self.count += 1
            if self.count == self.at:
                raise Unavailable("No broker answers.")
            return self.fetch(reader, *args)

        return call


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


class LogUses:
    """Opens logs in memory, and counts how often."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster
        self.count = 0
        self.refuses: Exception | None = None

    def __call__(self, options: Mapping[str, str]) -> Log:
        self.count += 1
        if self.refuses is not None:
            raise self.refuses
        return MemoryLog(self.cluster)


@pytest.fixture
def uses(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> LogUses:
    uses = LogUses(cluster)
    monkeypatch.setattr(log_tasks, "open_table_log", uses)
    monkeypatch.setattr(log_tasks, "_resting", {})
    return uses


@pytest.fixture
def metastore(
    cluster: MemoryCluster, uses: LogUses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[InProcessMetastore]:
    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    brokers = Brokers([("kafka:9092",)], lambda options: MemoryLog(cluster))
    service = InProcessMetastore(
        open_store, lambda store: MetastoreService(store, f"file://{tmp_path}/warehouse/", brokers=brokers)
    )
    for module in ("data_source", "stream.reader"):
        monkeypatch.setattr(f"lakelog.spark.{module}.open_metastore", lambda connection: service)
    yield service
    service.close()


@pytest.fixture
def catalog(metastore: InProcessMetastore) -> Catalog:
    catalog = Catalog(metastore, LocationStores())
    catalog.create_database("shop")
    return catalog


@pytest.fixture
def publisher(metastore: InProcessMetastore, cluster: MemoryCluster) -> Iterator[Any]:
    made: list[HandPublisher] = []

    def make(table: Table) -> HandPublisher:
        made.append(HandPublisher(metastore, cluster, table))
        return made[-1]

    yield make
    for each in made:
        each.close()


def stream_of(table: Table, **options: str) -> DrivenStream:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return DrivenStream("nowhere:1", table.name, START | named)


def by_bucket(rows: list[Row]) -> dict[tuple[Any, ...], Rows]:
    """The rows of each key, in their order: whatever has no key is sorted."""
    found: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        found.setdefault((row.get("day"), row.get("k")), []).append(tuple(row.values()))
    return found


def flat(batches: list[list[Row]]) -> list[Row]:
    return [row for batch in batches for row in batch]


def describe(stream: DrivenStream) -> list[tuple[Any, ...]]:
    """What the tasks of the first batch are told, but for the table as it is now."""
    assert stream.reader is not None
    tasks = [cast(LogSplit, each) for each in stream.reader.partitions(*stream.offsets[:2])]
    return [(each.starts, each.ends, each.snapshots, each.states, each.way, each.files.parts) for each in tasks]


def of_files(table: Table, **options: str) -> list[Row]:
    return flat(stream_of(table, streaming_read_mode="file", **options).run())


VIEWS: dict[str, dict[str, str]] = {
    "all": {},
    "some columns": {"columns": "name,k", "metadata_columns": "_snapshot_id"},
    "filter": {"columns": "v", "filter": "k > 4 AND price > 10"},
    "key filter": {"filter": "k = 4"},
    "raw": {"scan__remove_normalize": "true"},
}


@pytest.mark.parametrize(("keyed", "options"), TABLES.values(), ids=TABLES)
def test_a_log_shows_what_files_show(
    catalog: Catalog, publisher: Any, uses: LogUses, keyed: bool, options: Mapping[str, str]
) -> None:
    table = make(catalog, keyed, options)
    draw = Random(1)
    for _ in range(6):
        table.write(random_rows(draw, 30, "+I +I +U -D" if keyed else "+I"))
    publisher(table).publish()
    for name, view in VIEWS.items():
        before = uses.count
        found = flat(stream_of(table, **view).run())
        # Of records that were left out of the log, and of those that commits have merged, files know.
        by_files = options == TABLES["input upsert"][1] or (keyed and name == "raw")
        assert (uses.count == before) == by_files, name
        wanted = of_files(table, **view)
        assert wanted
        if keyed and name in ("all", "key filter"):
            assert by_bucket(found) == by_bucket(wanted), name
        assert sorted(map(repr, found)) == sorted(map(repr, wanted)), name


@pytest.mark.parametrize("name", ["append", "append in buckets", "keyed", "lookup", "lookup changelog all"])
def test_batches_take_log_and_files_in_turn(
    catalog: Catalog, publisher: Any, uses: LogUses, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # A task for each partition of the topic, which hands records out in small pieces.
    monkeypatch.setattr(splits, "_READ_BYTES", 1)
    monkeypatch.setattr(log_span, "TOLD_ROWS", 20)
    monkeypatch.setattr(log_span, "_FETCHED", 7)
    keyed, options = TABLES[name]
    table = make(catalog, keyed, options)
    fill(table, keyed)
    publisher(table).publish()
    for limits in ({}, {"maxRowsPerTrigger": "1"}, {"maxRowsPerTrigger": "70"}):
        for view in ({}, {"streaming-read-overwrite": "true"}):
            before = uses.count
            stream = stream_of(table, **limits, **view)
            batches = stream.run()
            found, wanted = flat(batches), of_files(table, **view)
            assert (
                by_bucket(found) == by_bucket(wanted)
                if keyed
                else sorted(map(repr, found)) == sorted(map(repr, wanted))
            )
            # The whole batch with the overwrite comes from files.
            assert (uses.count > before) == bool(limits)
            stream.start()
            assert [stream.show(number) for number in range(len(stream.offsets) - 1) if stream.show(number)] == batches


def test_the_tasks_of_a_batch_are_the_same_whenever_they_are_planned(
    catalog: Catalog, publisher: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "_READ_BYTES", 1)
    table = make(catalog, True, {"bucket": "3"})
    by_hand = publisher(table)
    for seed in range(3):
        table.upsert(random_rows(Random(seed), 40, None))
        by_hand.publish()
    stream = stream_of(table)
    stream.run()
    assert stream.reader is not None
    planned = describe(stream)
    assert len(planned) == 3
    table.upsert(random_rows(Random(3), 40, None))
    by_hand.publish()
    stream.start()
    assert describe(stream) == planned


def test_what_is_not_published_is_waited_for_unless_the_publisher_stands_still(
    catalog: Catalog, publisher: Any, uses: LogUses, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog, False, {})
    by_hand = publisher(table)
    table.append(random_rows(Random(1), 5, None))
    by_hand.publish()
    monkeypatch.setattr("lakelog.spark.stream.reader._WAIT_S", 0.3)
    stream = stream_of(table)
    stream.start()
    assert stream.reader is not None
    stream.offsets.append(stream.reader.initialOffset())
    limit = stream.reader.getDefaultReadLimit()
    assert stream.advance(limit)
    table.append(random_rows(Random(2), 5, None))
    assert not stream.advance(limit)
    by_hand.publish()
    assert stream.advance(limit)
    assert stream.offsets[-1]["snapshot"] == 2
    # Behind nothing for long, and then behind: that is no standing still.
    monkeypatch.setattr(log_reach, "_PATIENCE_S", 1.0)
    assert not stream.advance(limit)
    table.append(random_rows(Random(3), 5, None))
    assert not stream.advance(limit)
    before = uses.count
    while not stream.advance(limit):
        pass
    assert stream.offsets[-1]["snapshot"] == 3
    assert len(stream.show(2)) == 5
    assert uses.count == before
    # With AvailableNow the end of the table is the end.
    table.append(random_rows(Random(4), 5, None))
    assert len(flat(stream.run())) == 5
    # Once it goes on, the log is read again.
    by_hand.publish()
    table.append(random_rows(Random(5), 5, None))
    by_hand.publish()
    assert len(flat(stream.run())) == 5
    assert uses.count > before


@pytest.mark.parametrize("what", ["cut", "brokers away", "topic gone", "fails later", "not allowed", "no secret"])
@pytest.mark.parametrize("name", ["append", "keyed"])
def test_tasks_that_cannot_use_the_log_read_files(
    catalog: Catalog,
    metastore: InProcessMetastore,
    cluster: MemoryCluster,
    publisher: Any,
    uses: LogUses,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    name: str,
) -> None:
    keyed, options = TABLES[name]
    table = make(catalog, keyed, options)
    draw = Random(1)
    for _ in range(5):
        table.write(random_rows(draw, 30, "+I +I +U -D" if keyed else "+I"))
    publisher(table).publish()
    stream = stream_of(table)
    wanted = flat(stream.run())
    assert uses.count
    topic = metastore.get_log(table.uuid).topic
    if what == "cut":
        offsets = metastore.find_log_offsets(table.uuid, until=3)
        assert offsets is not None
        cluster.cut(topic, dict(enumerate(offsets.offsets)))
    elif what == "brokers away":
        cluster.script(Step.FETCH, Fault.REFUSED)
    elif what == "topic gone":
        cluster.delete_topic(topic)
    elif what == "fails later":
        monkeypatch.setattr(log_span, "TOLD_ROWS", 40)
        monkeypatch.setattr(log_span, "_FETCHED", 30)
        monkeypatch.setattr(MemoryReader, "fetch", FailsLater(MemoryReader.fetch))
    else:
        uses.refuses = PermissionDenied("No.") if what == "not allowed" else InvalidArgument("No.")
    stream.start()
    again = stream.show(0)
    assert sorted(map(repr, again)) == sorted(map(repr, wanted))
    if keyed:
        assert by_bucket(again) == by_bucket(wanted)
    if uses.refuses is not None:
        monkeypatch.setattr(log_tasks, "_resting", {})
        stream.options["streaming-read-mode"] = "log"
        stream.start()
        with pytest.raises(TaskFailed, match=r"No\."):
            stream.show(0)


def test_what_was_shown_in_part_is_an_error_and_the_task_begins_again(
    catalog: Catalog, publisher: Any, uses: LogUses, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog, False, {})
    table.append(random_rows(Random(1), 90, None))
    publisher(table).publish()
    monkeypatch.setattr(log_span, "TOLD_ROWS", 20)
    monkeypatch.setattr(log_span, "_FETCHED", 30)
    stream = stream_of(table)
    wanted = flat(stream.run())
    monkeypatch.setattr(MemoryReader, "fetch", FailsLater(MemoryReader.fetch, at=3))
    stream.start()
    with pytest.raises(TaskFailed, match="No broker answers"):
        stream.show(0)
    assert stream.show(0) == wanted


def test_a_topic_that_grew_shows_all_rows(
    catalog: Catalog, metastore: InProcessMetastore, cluster: MemoryCluster, publisher: Any, uses: LogUses
) -> None:
    table = make(catalog, False, {"log.system.partitions": "2"})
    first = publisher(table)
    for seed in range(3):
        table.append(random_rows(Random(seed), 5, None))
    first.publish()
    cluster.add_partitions(metastore.get_log(table.uuid).topic, 3)
    # Whoever begins afresh knows of all of them.
    first.close()
    for seed in range(3, 6):
        table.append(random_rows(Random(seed), 5, None))
    first.publish()
    assert len(metastore.get_publish_state(table.uuid).offsets) == 3
    for limits in ({}, {"maxRowsPerTrigger": "10"}):
        stream = stream_of(table, **limits)
        found = flat(stream.run())
        assert sorted(map(repr, found)) == sorted(map(repr, of_files(table)))
        uses.refuses = Unavailable("No broker answers.")
        stream.start()
        again = [row for number in range(len(stream.offsets) - 1) for row in stream.show(number)]
        assert sorted(map(repr, again)) == sorted(map(repr, found))
        uses.refuses = None
        log_tasks._resting.clear()
    assert uses.count


def test_records_of_another_history_stop_the_stream(
    catalog: Catalog, publisher: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog, False, {})
    table.append(random_rows(Random(1), 3, None))
    publisher(table).publish()
    fetch = MemoryReader.fetch

    def forge(self: MemoryReader, *args: Any) -> FetchedRecords:
        records = fetch(self, *args)
        return dataclasses.replace(records, uuids=pa.array([b"0" * 32] * len(records), pa.binary()))

    monkeypatch.setattr(MemoryReader, "fetch", forge)
    with pytest.raises(TaskFailed, match="HistoryDiverged"):
        stream_of(table).run()


def test_a_log_that_began_anew_is_read_once_it_is_known_where(
    catalog: Catalog, metastore: InProcessMetastore, publisher: Any, uses: LogUses
) -> None:
    table = make(catalog, True, {"bucket": "2"})
    by_hand = publisher(table)
    table.upsert(random_rows(Random(1), 9, None))
    by_hand.publish()
    stream = stream_of(table, maxRowsPerTrigger="1")
    rows = flat(stream.run())
    table.upsert(random_rows(Random(2), 9, None))
    metastore.restart_log(table.uuid)
    by_hand.close()
    for seed in (3, 4):
        table.upsert(random_rows(Random(seed), 9, None))
        by_hand.publish()
    before = uses.count
    rows += flat(stream.run())
    # The first snapshot behind the new beginning begins where other records may stand.
    assert uses.count == before + 1
    assert by_bucket(rows) == by_bucket(of_files(table))


def test_the_log_is_refused_where_there_is_none(catalog: Catalog) -> None:
    table = catalog.create_table("shop.plain", schema=SCHEMA)
    with pytest.raises(InvalidArgument, match=r"streaming-read-mode.*no log"):
        stream_of(table, streaming_read_mode="log").start()


def test_tasks_are_told_of_no_secret(catalog: Catalog, publisher: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKELOG_SECRET_password", "hunter2-never-shown")
    secret = {
        "kafka.security.protocol": "sasl_plaintext",
        "kafka.sasl.mechanism": "plain",
        "kafka.sasl.username": "me",
        "kafka.sasl.password": "secret:password",
    }
    table = make(catalog, False, secret)
    table.append(random_rows(Random(1), 3, None))
    publisher(table).publish()
    stream = stream_of(table)
    assert flat(stream.run())
    assert stream.reader is not None
    (task,) = stream.reader.partitions(*stream.offsets[:2])
    assert cast(LogSplit, task).options["kafka.sasl.password"] == "secret:password"
    assert b"hunter2" not in pickle.dumps((task, stream.reader))
