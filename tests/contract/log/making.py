"""Records as tests send them, and what they read."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from lakelog.format.types.rowkind import RowKind
from lakelog.log.protocol import LogProducer, LogReader
from lakelog.log.records import EncodedRecords, LogPosition, LogSnapshot

WAIT_S = 10.0


def make_snapshot(number: int) -> LogSnapshot:
    return LogSnapshot(number, f"{number:032x}")


def make_position(number: int, next_index: int | None = None) -> LogPosition:
    return LogPosition(number, f"{number:032x}", next_index)


def make_records(partition: int, values: list[str | None], first_index: int = 0) -> EncodedRecords:
    """Records whose keys are the beginnings of their values, up to `=`; without a value they are deletes of `k`."""
    return EncodedRecords(
        partition,
        pa.array([(value or "k").partition("=")[0].encode() for value in values], pa.binary()),
        pa.array([None if value is None else value.encode() for value in values], pa.binary()),
        np.array([RowKind.DELETE if value is None else RowKind.INSERT for value in values], np.int8),
        np.arange(first_index, first_index + len(values)),
    )


def publish(producer: LogProducer, number: int, *sent: EncodedRecords) -> dict[int, int]:
    """One transaction with one snapshot."""
    producer.begin()
    for records in sent:
        producer.send(records, make_snapshot(number))
    return producer.commit(make_position(number)).get(number, {})


def leave_open(producer: LogProducer, reader: LogReader, number: int, *sent: EncodedRecords) -> None:
    """Begins a transaction and lets its records come to stand in the topic without ending it."""
    producer.begin()
    for records in sent:
        producer.send(records, make_snapshot(number))
    # The protocol has no way to wait for records of an open transaction; they leave within `linger.ms` (5).
    time.sleep(0.25)


def await_equal(ask: Callable[[], object], expected: object) -> None:
    """Asks until the answer is the expected one: brokers answer a commit before they write its ends everywhere."""
    deadline = time.monotonic() + WAIT_S
    while (found := ask()) != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found == expected, found


def read_values(reader: LogReader, offsets: dict[int, int], count: int) -> dict[int, list[str | None]]:
    """The values by partition of so many records, and of none that come within 0.3 s behind them."""
    reader.assign(offsets)
    found: dict[int, list[str | None]] = {}
    got, deadline = 0, time.monotonic() + WAIT_S
    while time.monotonic() < deadline and got < count:
        got += _note(reader, found, 1.0)
    got += _note(reader, found, 0.3)
    assert got == count, found
    return found


def _note(reader: LogReader, found: dict[int, list[str | None]], timeout_s: float) -> int:
    records = reader.fetch(1000, timeout_s)
    for partition, value in zip(records.partitions.tolist(), records.values.to_pylist(), strict=True):
        found.setdefault(partition, []).append(None if value is None else value.decode())
    return len(records)
