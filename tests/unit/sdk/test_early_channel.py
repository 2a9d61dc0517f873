"""What sends rows before their commit lasts no longer than whoever writes."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Mapping

from lakelog.clock import SystemClock
from lakelog.format.log_state import LogInfo
from lakelog.format.table import TableName
from lakelog.log.protocol import Log
from lakelog.log.records import EncodedRecords
from lakelog.writes.early_sending import EarlyChannel

_PROGRAM = """
from tests.unit.sdk.test_early_channel import open_channel
channel = open_channel(wait_s=0.05)
assert channel.submit(lambda sender: sender.wait_for_ever(), 1)
assert channel.flush(0) is None
print("done")
"""


class _Brokers:
    """A log and its sender."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def open_early_sender(self, _topic: str) -> _Brokers:
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


def open_channel(brokers: _Brokers | None = None, wait_s: float = 10.0) -> EarlyChannel:
    log: Log = brokers or _Brokers()  # type: ignore[assignment]
    info = LogInfo("0" * 32, TableName("shop", "orders"), "orders", "id", 1, 0, is_named=False, options={}, problem="")
    return EarlyChannel("shop.orders", lambda: info, lambda _options: log, SystemClock(), wait_s)


def test_brokers_that_do_not_answer_keep_no_program_from_ending() -> None:
    ended = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=30, check=True)
    assert ended.stdout == "done\n", ended.stderr


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


def test_what_a_channel_had_open_is_closed_behind_what_it_sends() -> None:
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
