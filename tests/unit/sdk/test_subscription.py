"""What a subscription does beside its source: waiting, and keeping its position."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lakelog.errors import Fenced, InvalidArgument, Unavailable
from lakelog.storage.read_counts import ReadMetrics
from lakelog.stream_batch import Position, Progress
from lakelog.subscription import Subscription


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
def test_who_waits_is_told_that_another_has_taken_over(timeout: float | None) -> None:
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
