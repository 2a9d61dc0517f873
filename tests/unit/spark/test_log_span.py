"""Reading the records of a batch's snapshots to the end of their ranges, and for how long none is waited for."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import Unavailable
from lakelog.log.records import FetchedRecords
from lakelog.spark.stream import log_span
from lakelog.spark.stream.log_span import LogSpan
from tests.unit.log.codecs.fetched import make_fetched

_UUID = "a" * 32


class _Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.now_s = time.monotonic()

    def monotonic(self) -> float:
        return self.now_s


class _Reader:
    """Two partitions with a record each, which come one after the other, with questions in between that bring none.

    Args:
        clock: Moves while it is waited for.
        empty_s: How long these questions take together.
    """

    def __init__(self, clock: _Clock, empty_s: float) -> None:
        self._clock, self._empty_s = clock, empty_s
        self._at: dict[int, int] = {}

    def assign(self, starts: Mapping[int, int]) -> None:
        self._at = dict(starts)

    def positions(self) -> dict[int, int]:
        return self._at

    def fetch(self, count: int, timeout_s: float) -> FetchedRecords:
        partition = next(each for each, offset in self._at.items() if not offset)
        if partition == 1 and self._empty_s > 0:
            self._empty_s -= timeout_s
            self._clock.now_s += timeout_s
            return make_fetched([])
        self._at[partition] = 1
        return dataclasses.replace(
            make_fetched([b"{}"]),
            partitions=np.array([partition], np.int32),
            snapshot_ids=pa.array([1], pa.int64()),
            uuids=pa.array([_UUID.encode()], pa.binary()),
        )


def _read(clock: _Clock, monkeypatch: pytest.MonkeyPatch, empty_s: float) -> Iterator[int]:
    monkeypatch.setattr(log_span, "time", SimpleNamespace(monotonic=clock.monotonic))
    snapshot: Any = SimpleNamespace(snapshot_id=1, snapshot_uuid=_UUID)
    reader: Any = _Reader(clock, empty_s)
    for part in LogSpan(reader, "orders", {0: 0, 1: 0}, {0: 1, 1: 1}, [snapshot], whole=True).read():
        yield part.partition


def test_who_is_busy_with_records_is_not_told_that_none_come(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, found = _Clock(), []
    for partition in _read(clock, monkeypatch, empty_s=1.0):
        found.append(partition)
        clock.now_s += 600.0
    assert found == [0, 1]


def test_records_that_never_come_are_not_waited_for_any_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = _read(_Clock(), monkeypatch, empty_s=60.0)
    assert next(parts) == 0
    with pytest.raises(Unavailable, match="The log orders hands out no record for 10 s"):
        next(parts)
