"""How long ranges of a topic are waited for: as long as anything happens to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import pytest

from lakelog.errors import Unavailable
from lakelog.log.columns import NO_RECORDS, RawRecords, to_fetched
from lakelog.log.records import FetchedRecords
from lakelog.reads.log import stall as log_stall
from lakelog.spark.executor.log_span import LogSpan


class Time:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 1000.0
        monkeypatch.setattr(log_stall, "time", SimpleNamespace(monotonic=lambda: self.seconds))


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


class Reader:
    """Hands out what it is told to: for each fetch its seconds, the partitions of its records, and what it passes."""

    def __init__(self, time: Time, fetches: Sequence[tuple[float, Sequence[int], Mapping[int, int]]]) -> None:
        self._time = time
        self._fetches = list(fetches)
        self._positions: dict[int, int] = {}

    def assign(self, offsets: Mapping[int, int]) -> None:
        self._positions = dict(offsets)

    def fetch(self, max_records: int, timeout_s: float) -> FetchedRecords:
        seconds, partitions, passed = self._fetches.pop(0)
        self._time.seconds += seconds
        records = [(each, self._positions[each]) for each in partitions]
        for partition in partitions:
            self._positions[partition] += 1
        for partition, count in passed.items():
            self._positions[partition] += count
        return to_records(records)

    def positions(self) -> dict[int, int]:
        return dict(self._positions)


def to_records(places: list[tuple[int, int]]) -> FetchedRecords:
    if not places:
        return NO_RECORDS
    none = [None] * len(places)
    headers = [{"snapshot": b"1", "uuid": b"u"}] * len(places)
    partitions, offsets = zip(*places, strict=True)
    return to_fetched(RawRecords(partitions, offsets, [0] * len(places), none, none, headers))


def make_span(reader: Reader, ends: Mapping[int, int]) -> LogSpan:
    snapshot = SimpleNamespace(snapshot_id=1, snapshot_uuid="u")
    return LogSpan(reader, "topic", dict.fromkeys(ends, 0), ends, [snapshot], whole=True)  # type: ignore[arg-type, list-item]


def test_who_is_busy_with_what_was_handed_out_has_not_waited(time: Time) -> None:
    reader = Reader(time, [(0, [0], {}), (0.5, [], {}), (0.5, [1], {})])
    found = []
    for part in make_span(reader, {0: 1, 1: 1}).read():
        found.append(part.partition)
        time.seconds += 60
    assert found == [0, 1]


def test_offsets_that_are_passed_without_a_record_are_progress(time: Time) -> None:
    reader = Reader(time, [*[(6.0, [], {0: 100})] * 5, (6.0, [0], {})])
    (part,) = make_span(reader, {0: 501}).read()
    assert part.records.offsets.tolist() == [500]


@pytest.mark.parametrize("others", [[], [0]])
def test_a_log_that_stands_still_is_given_up_whatever_comes_of_partitions_that_are_done(
    time: Time, others: list[int]
) -> None:
    reader = Reader(time, [(0, [0], {}), *[(4.0, others, {})] * 4])
    span = make_span(reader, {0: 1, 1: 1}).read()
    assert next(span).partition == 0
    with pytest.raises(Unavailable, match="hands out no record for 10 s") as caught:
        next(span)
    assert caught.value.reason == "LOG_BEHIND"
