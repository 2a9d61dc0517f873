"""What a subscription does beside its source: waiting, and keeping its position."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pytest

from lakelog.errors import Unavailable
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
