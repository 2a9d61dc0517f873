"""What sends rows before their commit lasts no longer than whoever writes."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lakelog.clock import Clock, SystemClock
from lakelog.format.log.state import LogInfo
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.log.protocol import Log
from lakelog.log.records import EncodedRecords
from lakelog.writes.uncommitted_sending import SentUncommitted, UncommittedChannel, UncommittedSenders

_PROGRAM = """
from tests.unit.sdk.test_uncommitted_channel import open_channel
channel = open_channel(wait_s=0.05)
assert channel.submit(lambda sender: sender.wait_for_ever(), 1)
assert channel.flush(0) is None
print("done")
"""

_FORKED = """
import os
from tests.unit.sdk.test_uncommitted_channel import open_senders, send_rows
senders = open_senders()
assert send_rows(senders) is not None
child = os.fork()
if not child:
    os._exit(0 if send_rows(senders) is not None else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), send_rows(senders) is not None)
"""


class _Brokers:
    """A log and its sender."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def open_uncommitted_sender(self, _topic: str) -> _Brokers:
        return self

    def wait_for_ever(self) -> None:
        """As with brokers that are away, while too many records wait to be sent."""
        threading.Event().wait()

    def send(self, records: EncodedRecords, attempt_id: str) -> None:
        """It takes all."""

    def flush(self, _timeout_s: float) -> Mapping[int, int]:
        return {0: 1}

    def close(self) -> None:
        self.closed.set()


def open_channel(
    brokers: _Brokers | None = None,
    wait_s: float = 10.0,
    clock: Clock | None = None,
    find_log: Callable[[], LogInfo] = lambda: make_info(1),
) -> UncommittedChannel:
    log: Log = brokers or _Brokers()  # type: ignore[assignment]
    return UncommittedChannel("shop.orders", find_log, lambda _options: log, clock or SystemClock(), wait_s)


def make_info(generation: int) -> LogInfo:
    name = TableName("shop", "orders")
    return LogInfo("0" * 32, name, "orders", "id", generation, 0, is_named=False, options={}, problem="")


def test_brokers_that_do_not_answer_keep_no_program_from_ending() -> None:
    ended = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=30, check=True)
    assert ended.stdout == "done\n", ended.stderr


def open_senders() -> UncommittedSenders:
    metastore: Any = SimpleNamespace(get_log=lambda _uuid: make_info(1))
    log: Any = _Brokers()
    return UncommittedSenders(metastore, lambda _options: log, SystemClock())


def send_rows(senders: UncommittedSenders) -> SentUncommitted | None:
    schema = pa.schema([pa.field("k", pa.int64())])
    options = {"log.system": "kafka", "log.consistency": "eventual", "kafka.bootstrap.servers": "kafka:9092"}
    name = TableName("shop", "orders")
    info = TableInfo("1" * 32, name, "file:///x/", TableSchema(0, assign_field_ids(schema), ()), options, 0, 0)
    uncommitted = senders.begin(info, "f" * 32)
    assert uncommitted is not None
    uncommitted.send(pa.table({"k": [1, 2]}, schema=schema), None)
    return uncommitted.finish()


def test_a_forked_child_sends_by_itself() -> None:
    ended = subprocess.run([sys.executable, "-c", _FORKED], capture_output=True, text=True, timeout=30, check=True)
    assert ended.stdout == "0 True\n", ended.stderr


class _Clock(SystemClock):
    def __init__(self) -> None:
        self.time_s = 1000.0

    def monotonic_s(self) -> float:
        return self.time_s


def test_what_was_sent_before_the_log_restarted_counts_as_not_sent() -> None:
    clock, found = _Clock(), [make_info(1)]
    channel = open_channel(clock=clock, find_log=lambda: found[-1])
    before = channel.failures
    assert channel.submit(lambda sender: None, 1)
    assert channel.flush(before) == SentUncommitted(1, {0: 1})
    found.append(make_info(2))
    clock.time_s += 60
    assert channel.submit(lambda sender: None, 1)
    assert channel.flush(before) is None
    assert channel.submit(lambda sender: None, 1)
    assert channel.flush(channel.failures) == SentUncommitted(2, {0: 1})


def test_no_more_waits_than_memory_takes() -> None:
    channel, goes_on = open_channel(), threading.Event()

    def wait(_sender: object) -> None:
        goes_on.wait(10)

    # A piece that is larger than all may be is taken where nothing else waits.
    assert channel.submit(wait, 65 << 20)
    assert not channel.submit(lambda sender: None, 1)
    goes_on.set()
    assert channel.flush(0) is not None
    assert channel.submit(lambda sender: None, 1)


def test_a_thread_ends_with_its_channel() -> None:
    before = set(threading.enumerate())
    channel = open_channel()
    assert channel.submit(lambda sender: None, 1)
    assert channel.flush(0) is not None
    (thread,) = set(threading.enumerate()) - before
    del channel
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def test_what_a_channel_had_open_is_closed_after_what_it_sends() -> None:
    brokers, begun, goes_on = _Brokers(), threading.Event(), threading.Event()
    channel = open_channel(brokers)

    def send(_sender: object) -> None:
        begun.set()
        goes_on.wait(10)
        assert not brokers.closed.is_set()

    assert channel.submit(send, 1)
    assert begun.wait(10)
    channel.close()
    assert not channel.is_open
    # What comes too late counts as not sent.
    assert channel.submit(send, 1)
    goes_on.set()
    assert brokers.closed.wait(10)
    assert channel.flush(0) is None
    assert channel.failures == 1


def test_a_writer_is_notified_where_answers_come_too_late(caplog: pytest.LogCaptureFixture) -> None:
    channel, goes_on = open_channel(wait_s=0.05), threading.Event()

    def wait(_sender: object) -> None:
        goes_on.wait(10)

    assert channel.submit(wait, 1)
    assert channel.flush(0) is None
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        (
            "WARNING",
            "rows of table shop.orders are not sent before their commit for a while: "
            "brokers have not answered for all of them in time",
        )
    ]
    assert not channel.is_open
    goes_on.set()
