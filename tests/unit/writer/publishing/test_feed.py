"""What a publisher is told of snapshots, and of what ends its watch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, cast

import pytest

from lakelog.client.metastore.metastore import Metastore, WatchEvent, WatchPosition
from lakelog.errors import InternalError, NotFound, Unavailable
from writer.publishing.reading.feed import WatchFeed

_TABLE = "0" * 32
_WAIT_S = 10.0


class _Watch:
    """Tells some events, then does something."""

    def __init__(self, events: Iterator[WatchEvent], end: Callable[[], object]) -> None:
        self._events, self._end = events, end

    def __iter__(self) -> Iterator[WatchEvent]:
        yield from self._events
        self._end()

    def close(self) -> None:
        """It ends by itself."""


class _Metastore:
    def __init__(self, watch: _Watch) -> None:
        self._watch = watch

    def watch(self, _positions: object, **_options: object) -> _Watch:
        return self._watch


def _open(events: Iterator[WatchEvent], end: Callable[[], object] = lambda: None) -> WatchFeed:
    metastore = cast("Metastore", _Metastore(_Watch(events, end)))
    return WatchFeed(metastore, WatchPosition(_TABLE, 0, ""), complete=False)


def _event(number: int) -> WatchEvent:
    # Whatever a snapshot is, it is handed on.
    return WatchEvent(_TABLE, cast("Any", (number,)))


def _take(feed: WatchFeed) -> list[object]:
    return list(feed.take(_WAIT_S))


def _raise(error: Exception) -> Callable[[], object]:
    def end() -> object:
        raise error

    return end


@pytest.mark.parametrize(
    ("error", "kind"), [(Unavailable("away"), Unavailable), (ZeroDivisionError("a defect"), InternalError)]
)
def test_the_end_of_a_watch_is_reported_after_what_came_before(error: Exception, kind: type[Exception]) -> None:
    with closing(_open(iter([_event(1)]), _raise(error))) as feed:
        assert _take(feed) == [1]
        for _ in range(2):
            with pytest.raises(kind, match=str(error)):
                feed.take(_WAIT_S)


def test_that_the_table_was_dropped_is_reported() -> None:
    with closing(_open(iter([_event(1), WatchEvent(_TABLE, (), dropped=True)]))) as feed:
        assert _take(feed) == [1]
        with pytest.raises(NotFound, match="was dropped"):
            feed.take(_WAIT_S)


def test_nothing_is_taken_where_nothing_comes() -> None:
    never = threading.Event()
    with closing(_open(iter([]), lambda: never.wait(_WAIT_S))) as feed:
        assert feed.take(0.0) == []
        assert feed.take(0.01) == []
        never.set()


class _Slow(tuple[int]):
    """Of these others come while they are taken."""

    def __iter__(self) -> Iterator[int]:
        time.sleep(0.01)
        return super().__iter__()


def test_a_backlog_is_taken_in_pieces() -> None:
    count = 20
    events = (WatchEvent(_TABLE, cast("Any", _Slow((number,)))) for number in range(count))
    with closing(_open(events)) as feed:
        found: list[object] = []
        while len(found) < count:
            chunk = _take(feed)
            assert 0 < len(chunk) <= 4
            found += chunk
    assert found == list(range(count))
