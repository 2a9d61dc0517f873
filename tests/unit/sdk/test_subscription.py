"""What a subscription does beside its source: waiting, and keeping its position."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from lakelog.client.connection.retry import CLOSED
from lakelog.errors import Fenced, InvalidArgument, Unavailable
from lakelog.reads.streams.batch import Position, Progress, StreamBatch
from lakelog.reads.streams.subscription import Subscription
from lakelog.storage.parquet.read_counts import ReadMetrics

WAIT_S = 20.0


class SilentFollower:
    """Many snapshots that show nothing, one behind the other."""

    metrics = ReadMetrics()

    def follow(self) -> Iterator[Progress]:
        for number in range(1, 500):
            yield Progress(None, {"t": Position(number)})
            time.sleep(0.01)

    def close(self) -> None:
        pass


def test_snapshots_that_show_nothing_do_not_prolong_the_wait() -> None:
    with Subscription("t", SilentFollower(), {}, lambda position: None, auto_commit=True) as stream:
        assert stream.read(0.2) is None
        assert not stream.ended, "it waited until its source had nothing more"
        assert stream.position
        before = stream.position
        assert stream.read(0.1) is None
        assert stream.position > before


def test_a_position_that_could_not_be_kept_is_kept_later() -> None:
    kept: list[int] = []

    def keep(positions: Mapping[str, Position]) -> None:
        kept.append(positions["t"].snapshot_id)
        if len(kept) == 1:
            raise Unavailable("gone for a moment")

    with Subscription("t", SilentFollower(), {}, keep, auto_commit=False) as stream:
        assert stream.read(0.1) is None
        with pytest.raises(Unavailable):
            stream.commit()
        assert stream.position is None
        stream.commit()
        assert kept[0] == kept[1] == stream.position


class WaitingFollower:
    """A source of which nothing comes."""

    metrics = ReadMetrics()

    def __init__(self) -> None:
        self._closed = threading.Event()

    def follow(self) -> Iterator[Progress]:
        self._closed.wait(30)
        yield from ()

    def close(self) -> None:
        self._closed.set()


@pytest.mark.parametrize("timeout", [None, 25.0])
def test_a_waiting_instance_reports_that_another_has_taken_over(timeout: float | None) -> None:
    def keep(positions: Mapping[str, Position]) -> None:
        raise Fenced("Consumer 'etl' is read by another.")

    begun_s = time.monotonic()
    at = {"t": Position(1)}
    with Subscription("t", WaitingFollower(), at, keep, auto_commit=True, keep_every_s=0.1) as stream:
        with pytest.raises(Fenced, match="is read by another"):
            stream.read(timeout)
        assert time.monotonic() - begun_s < 10
        with pytest.raises(Fenced, match="is read by another"):
            stream.read(timeout)


@pytest.mark.parametrize("timeout", ["5", True, -1, float("nan"), [1]])
def test_a_wait_is_a_number_of_seconds(timeout: Any) -> None:
    with (
        Subscription("t", WaitingFollower(), {}, lambda position: None, auto_commit=True) as stream,
        pytest.raises(InvalidArgument, match=r"timeout=.* is no time to wait: give seconds, 0 or more"),
    ):
        stream.read(timeout)


def test_a_wait_may_have_no_end() -> None:
    stream = Subscription("t", WaitingFollower(), {}, lambda position: None, auto_commit=True)
    threading.Timer(0.2, stream.close).start()
    assert stream.read(float("inf")) is None
    assert stream.ended


class SteadyFollower:
    """Batches without an end, each of a snapshot of its own."""

    metrics = ReadMetrics()

    def follow(self) -> Iterator[Progress]:
        for number in itertools.count(1):
            batch = StreamBatch(pa.record_batch({"n": [number]}), number, "t")
            yield Progress(batch, {"t": Position(number)})

    def close(self) -> None:
        pass


@dataclass
class Kept:
    """Where positions are kept."""

    positions: list[int] = field(default_factory=list)

    def keep(self, positions: Mapping[str, Position]) -> None:
        self.positions.append(positions["t"].snapshot_id)


def test_a_closed_one_commits_nothing_and_says_so() -> None:
    kept = Kept()
    with Subscription("t", SteadyFollower(), {}, kept.keep, auto_commit=False) as stream:
        stream.read(WAIT_S)
        stream.commit()
        stream.read(WAIT_S)
        assert not stream.closed
        stream.close()
        for _ in range(2):
            with pytest.raises(InvalidArgument, match=r"to t is closed, so its position stays where it is\. Commit"):
                stream.commit()
        assert stream.closed
    assert (kept.positions, stream.position) == ([1], 1)


def test_reading_on_when_it_is_closed_is_reported_once_by_an_end() -> None:
    stream = Subscription("t", SteadyFollower(), {}, Kept().keep, auto_commit=True)
    stream.read(WAIT_S)
    stream.close()
    assert stream.read(WAIT_S) is None
    assert stream.ended
    for _ in range(2):
        with pytest.raises(InvalidArgument, match=r"to t is closed, so no batch comes any more\. Subscribe again\."):
            stream.read(WAIT_S)
        assert list(stream) == []


def test_leaving_the_block_is_an_end_that_was_requested() -> None:
    kept = Kept()
    with Subscription("t", SteadyFollower(), {}, kept.keep, auto_commit=True) as stream:
        for batch in stream:
            if batch.snapshot_id == 3:
                break
    assert kept.positions == [1, 2]
    with pytest.raises(InvalidArgument, match="is closed"):
        stream.read()
    assert list(stream) == []
    assert kept.positions == [1, 2], "nobody has asked for what is behind the third one"


def test_a_thread_that_reads_is_notified_when_another_leaves_the_block() -> None:
    reported: list[StreamBatch | None] = []
    left = threading.Event()

    def read() -> None:
        reported.append(stream.read(WAIT_S))
        begun.set()
        left.wait(WAIT_S)
        reported.append(stream.read(WAIT_S))

    begun = threading.Event()
    with Subscription("t", SteadyFollower(), {}, Kept().keep, auto_commit=True) as stream:
        reading = threading.Thread(target=read)
        reading.start()
        assert begun.wait(WAIT_S)
    left.set()
    reading.join(WAIT_S)
    assert [each and each.snapshot_id for each in reported] == [1, None]


def test_a_position_that_a_closed_source_cannot_keep_stays() -> None:
    def keep(positions: Mapping[str, Position]) -> None:
        if stream.closed:
            raise Unavailable("The subscription was closed before", reason=CLOSED)

    stream = Subscription("t", SteadyFollower(), {}, keep, auto_commit=True)
    for _ in range(2):
        stream.read(WAIT_S)
    stream.close()
    assert stream.read(WAIT_S) is None
    assert stream.position == 1
