"""What tasks send before the commit: how their records are numbered, and what the commit may say of them."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.errors import Unavailable
from lakelog.format.log.state import LogInfo
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.log.memory import MemoryCluster, MemoryLog
from lakelog.log.protocol import Log
from lakelog.log.records import FetchedRecords, TopicSpec
from lakelog.log.settings import read_log_settings
from lakelog.reads.streams.uncommitted.attempts import _COUNTED
from lakelog.spark.executor.uncommitted import _MAX_CHANNELS, TaskChannels, UncommittedTask, merge_sent, to_place
from lakelog.spark.executor.written_files import WrittenFiles
from lakelog.writes.uncommitted_sending import RowForm, SentUncommitted, UncommittedRows

OPTIONS = {"log.system": "kafka", "log.consistency": "eventual", "bucket": "2", "kafka.bootstrap.servers": "kafka:1"}
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
ATTEMPT = "0000000a" + "0" * 24


def make_task(
    topic: str = "orders", generation: int = 1, key: tuple[str, ...] = ("k",), **more: str
) -> UncommittedTask:
    options = {**OPTIONS, **{name.replace("_", "."): value for name, value in more.items()}}
    name = TableName("shop", topic)
    info = TableInfo("1" * 32, name, "file:///x/", TableSchema(0, assign_field_ids(SCHEMA), key), options, 0, 0)
    settings = read_log_settings(options, has_primary_key=bool(key))
    assert settings is not None
    return UncommittedTask(
        LogInfo("1" * 32, name, topic, "t", generation, 0, False, options), RowForm.of(info, settings)
    )


class Channels:
    """Those of one process of an executor, over brokers in memory."""

    def __init__(self, *topics: str) -> None:
        self.cluster = MemoryCluster()
        self.log = MemoryLog(self.cluster)
        self.opened = 0
        self.channels = TaskChannels(self._open, SystemClock(), wait_s=60.0)
        for topic in topics or ("orders",):
            self.log.open_admin().create_topic(TopicSpec(topic, 2))

    def _open(self, options: Mapping[str, str]) -> Log:
        self.opened += 1
        return self.log

    def begin(self, task: UncommittedTask, number: int = 0) -> UncommittedRows:
        found = self.channels.begin(pickle.loads(pickle.dumps(task)), to_place(ATTEMPT, number, 100 + number))
        assert found is not None
        return found

    def read(self, topic: str = "orders") -> FetchedRecords:
        reader = self.log.open_reader(topic)
        reader.assign({0: 0, 1: 0})
        return reader.fetch(1000, 0)


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": keys, "v": [1] * len(keys)}, SCHEMA)


def test_records_of_tasks_never_have_the_number_of_others() -> None:
    channels = Channels()
    for number in (0, 1, 7):
        uncommitted = channels.begin(make_task(), number)
        uncommitted.send(rows(1, 2, 3), None)
        uncommitted.send(rows(4), np.array([3], np.int8))
        sent = uncommitted.finish()
        assert sent is not None
        assert sent.generation == 1
        ends = sum(sent.offsets.values())
    found = channels.read()
    assert len(found) == 12
    assert set(found.attempts.to_pylist()) == {ATTEMPT.encode()}
    assert len(set(found.indexes.to_pylist())) == 12
    assert channels.opened == 1, "tasks of one process share the connection"
    assert ends == 12


def test_numbers_have_as_many_digits_as_readers_take() -> None:
    most = to_place(ATTEMPT, 1, (1 << 20) - 1).first_index + (1 << 36) - 1
    assert re.fullmatch("[0-9]{1,18}", str(most))


@pytest.mark.parametrize("task_attempt_id", [0, 1, 1 << 20, 1 << 40])
def test_numbers_of_tasks_are_beyond_those_of_who_counts_all_rows(task_attempt_id: int) -> None:
    assert to_place(ATTEMPT, 0, task_attempt_id).first_index >= _COUNTED


def test_rows_without_a_bucket_are_spread_by_task() -> None:
    channels = Channels()
    for number in range(2):
        uncommitted = channels.begin(make_task(key=(), bucket="-1", log_system_partitions="2"), number)
        uncommitted.send(rows(1, 2), None)
        uncommitted.send(rows(3), None)
        uncommitted.finish()
    assert sorted(channels.read().partitions.tolist()) == [0, 0, 0, 1, 1, 1]


def test_another_generation_is_another_log() -> None:
    channels = Channels()
    for generation in (1, 2):
        uncommitted = channels.begin(make_task(generation=generation))
        uncommitted.send(rows(1), None)
        sent = uncommitted.finish()
        assert sent is not None
        assert sent.generation == generation


def test_a_log_that_was_not_used_for_long_is_closed() -> None:
    topics = [f"t{number}" for number in range(_MAX_CHANNELS + 1)]
    channels = Channels(*topics)
    first = channels.begin(make_task(topics[0]))
    first.send(rows(1), None)
    for topic in topics[1:]:
        channels.begin(make_task(topic)).send(rows(1), None)
    first.send(rows(2), None)
    assert first.finish() is None, "what it sends now goes nowhere"
    again = channels.begin(make_task(topics[0]))
    again.send(rows(3), None)
    assert again.finish() is not None


@pytest.mark.parametrize("error", [Unavailable("The broker went away."), ValueError("a bug")])
def test_what_fails_never_counts_as_sent(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    channels = Channels()
    uncommitted = channels.begin(make_task())
    send = RowForm.send

    def fail(self: RowForm, table: pa.Table, *more: Any) -> None:
        if table.column("k")[0].as_py() == 2:
            raise error
        send(self, table, *more)

    monkeypatch.setattr(RowForm, "send", fail)
    uncommitted.send(rows(1), None)
    uncommitted.send(rows(2), None)
    uncommitted.send(rows(3), None)
    assert uncommitted.finish() is None


def written(number: int, sent: SentUncommitted | None, *buckets: int, row_count: int = 1) -> WrittenFiles:
    files = tuple(DataFile(f"{number}-{bucket}", b"", bucket, 0, 1, 0, 1, None, None, 0) for bucket in buckets)
    return WrittenFiles(number, files, row_count, (), (), sent)


def test_all_was_sent_where_every_task_says_so() -> None:
    first, second = SentUncommitted(3, {0: 7, 1: 9}), SentUncommitted(3, {1: 12, 2: 4})
    nothing = written(9, None, row_count=0)
    assert merge_sent([written(0, first, 0), written(1, second, 1), nothing], has_key=True) == SentUncommitted(
        3, {0: 7, 1: 12, 2: 4}
    )
    assert merge_sent([nothing], has_key=True) is None
    assert merge_sent([], has_key=True) is None


@pytest.mark.parametrize(
    "tasks",
    [
        [written(0, SentUncommitted(3, {0: 7}), 0), written(1, None, 1)],
        [written(0, SentUncommitted(3, {0: 7}), 0), written(1, SentUncommitted(4, {0: 9}), 1)],
        # Which of their rows of one key stands last is not what the commit has decided.
        [written(0, SentUncommitted(3, {0: 7}), 0), written(1, SentUncommitted(3, {0: 9}), 0)],
    ],
)
def test_else_the_publisher_sends_all(tasks: list[WrittenFiles]) -> None:
    assert merge_sent(tasks, has_key=True) is None


def test_without_a_key_any_order_will_do() -> None:
    tasks = [written(0, SentUncommitted(3, {0: 7}), 0), written(1, SentUncommitted(3, {0: 9}), 0)]
    assert merge_sent(tasks, has_key=False) == SentUncommitted(3, {0: 9})
