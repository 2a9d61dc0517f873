"""What becomes of a batch out of a table's log that is cut, gone, refused, begun anew, or of another history."""

from __future__ import annotations

import dataclasses
import pickle
from random import Random
from typing import Any, cast

import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument, PermissionDenied, Unavailable
from lakelog.log.columns import take_fetched
from lakelog.log.memory import Fault, MemoryCluster, Step
from lakelog.log.memory.reader import MemoryReader
from lakelog.log.records import FetchedRecords
from lakelog.sdk.catalog import Catalog
from lakelog.spark.executor import log_span
from lakelog.spark.executor import read_log as log_tasks
from lakelog.spark.stream.log_splits import LogSplit
from lakelog.spark.task_errors import TaskFailed
from metastore.testing import InProcessMetastore
from tests.integration.spark.log.driven_log import FailsLater, by_bucket, flat, of_files, stream_of
from tests.support.log.logging_tables import LogUses
from tests.support.log.orders_with_log import SCHEMA, TABLES, make, random_rows


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
        monkeypatch.setattr(log_span, "EMITTED_ROWS", 40)
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
    monkeypatch.setattr(log_span, "EMITTED_ROWS", 20)
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


def test_a_log_that_restarted_is_read_once_it_is_known_where(
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
    assert uses.count > before
    assert by_bucket(rows) == by_bucket(of_files(table))


def test_the_log_is_refused_where_there_is_none(catalog: Catalog) -> None:
    table = catalog.create_table("shop.plain", schema=SCHEMA)
    with pytest.raises(InvalidArgument, match=r"streaming-read-mode.*no log"):
        stream_of(table, streaming_read_mode="log").start()


def test_tasks_receive_no_secret(catalog: Catalog, publisher: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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


class AgeingClock(SystemClock):
    """An hour goes by once it was asked so many times."""

    def __init__(self, asked: int) -> None:
        self.left = asked

    def now_ms(self) -> int:
        self.left -= 1
        return super().now_ms() + (0 if self.left >= 0 else 3_600_000)


@pytest.mark.parametrize("asked", [0, 1, 2, None])
@pytest.mark.parametrize("gone", [2, 3])
def test_what_may_have_been_compacted_away_comes_from_files(
    catalog: Catalog, publisher: Any, monkeypatch: pytest.MonkeyPatch, gone: int, asked: int | None
) -> None:
    table = make(catalog, True, {})
    for number in range(3):
        table.upsert(random_rows(Random(number), 9, None))
    publisher(table).publish()
    fetch = MemoryReader.fetch

    def compact(self: MemoryReader, *args: Any) -> FetchedRecords:
        records = fetch(self, *args)
        return take_fetched(records, records.snapshot_ids.to_numpy(zero_copy_only=False) != gone)

    wanted = of_files(table)
    monkeypatch.setattr(MemoryReader, "fetch", compact)
    if asked is not None:
        monkeypatch.setattr(log_tasks, "_clock", AgeingClock(asked))
    # The control: who takes what is old for young misses a snapshot. The last question is about the end of the log.
    is_reported = asked in (0, 1) or (asked == 2 and gone == 3)
    assert (by_bucket(flat(stream_of(table).run())) == by_bucket(wanted)) is is_reported
