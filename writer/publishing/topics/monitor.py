"""Looks at the topics of all tables that a process publishes: those of the same brokers together, over one connection.

A look of its own for each table is a connection, a thread and 0.2 s in which the table waits, thousands of times.

1. Whoever comes behind the time of a look, while nobody asks, asks for himself and for others, but for no more than
   takes a moment; who comes next asks for the next. Nobody waits for who asks: he hears of it when he comes again.
2. A look tells of a topic only whom it began behind: what was seen before a fresh start is older than what that found.
3. Brokers that do not answer say nothing of any topic. The next look is by a new client, with the credentials of then.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from lakelog.clock import Clock
from lakelog.errors import LakelogError
from lakelog.format.log.state import LogInfo
from lakelog.log.client_settings import to_option_names
from lakelog.log.protocol import Log, TopicAdmin
from lakelog.log.records import TopicState

POLL_EVERY_S: Final = 10.0
"""How late it is noticed that a topic is gone. Of 1,000 topics a look is 0.3 s of CPU."""

_TOGETHER: Final = 100
"""Topics that one asks for: some 0.1 s, and 600 KB of settings."""


@dataclass(eq=False)
class _Brokers:
    """Those that are reached in one way.

    Args:
        next_s: When it is time to look again.
        topics: Who follows which topic.
        begun: How many times all topics were begun to be looked at.
        left: Those that are still to be asked for, this time; only for who asks.
        reported: What was said of a topic last, None where it is gone, and in which of these times.
        asking: Held by who asks.
        admin: Open between questions; only for who asks.
    """

    next_s: float
    topics: dict[MonitoredTopic, str] = field(default_factory=dict)
    begun: int = 0
    left: list[str] = field(default_factory=list)
    reported: dict[str, tuple[int, TopicState | None]] = field(default_factory=dict)
    asking: threading.Lock = field(default_factory=threading.Lock)
    admin: TopicAdmin | None = None

    def end(self) -> None:
        """Closes what is open between looks."""
        admin, self.admin = self.admin, None
        if admin is not None:
            with contextlib.suppress(LakelogError):
                admin.close()


class TopicMonitor:
    """Looks at topics now and then, for whoever has asked for that. Any thread.

    Args:
        open_log: The brokers of a log, with the credentials that hold at that moment.
        clock: For the time.
    """

    def __init__(self, open_log: Callable[[LogInfo], Log], clock: Clock) -> None:
        self._open_log = open_log
        self._clock = clock
        self._lock = threading.Lock()
        self._brokers: dict[frozenset[tuple[str, str]], _Brokers] = {}

    def open(self, info: LogInfo) -> MonitoredTopic:
        """Has a log's topic looked at from now on, until what is returned is closed."""
        key = _to_key(info.options)
        with self._lock:
            brokers = self._brokers.setdefault(key, _Brokers(self._clock.monotonic_s() + POLL_EVERY_S))
            monitored = MonitoredTopic(self, info, brokers.begun)
            brokers.topics[monitored] = info.topic
        return monitored

    def close(self, monitored: MonitoredTopic) -> None:
        """The topic is not looked at any more for this one. Idempotent."""
        key = _to_key(monitored.info.options)
        with self._lock:
            brokers = self._brokers.get(key)
            if brokers is None:
                return
            brokers.topics.pop(monitored, None)
            if brokers.topics:
                return
            del self._brokers[key]
        brokers.end()

    def poll(self, monitored: MonitoredTopic) -> tuple[int, TopicState | None] | None:
        """What was said last of an open look's topic, and when; asks where it is time and nobody does, and blocks."""
        with self._lock:
            brokers = self._brokers[_to_key(monitored.info.options)]
            names = self._pick_names(brokers) if brokers.asking.acquire(blocking=False) else []
            if not names:
                return brokers.reported.get(monitored.info.topic)
            number = brokers.begun
        found: Mapping[str, TopicState | None] = {}
        try:
            if brokers.admin is None:
                brokers.admin = self._open_log(monitored.info).open_admin()
            found = brokers.admin.find_topics(names)
        except LakelogError:
            # That says nothing of the topics. Where brokers are away, who sends to them says so; and while they let no
            # new connection in, whose password has changed, those that are open go on.
            brokers.end()
            brokers.left = []
        finally:
            brokers.asking.release()
        with self._lock:
            brokers.reported |= {name: (number, state) for name, state in found.items()}
            return brokers.reported.get(monitored.info.topic)

    def _pick_names(self, brokers: _Brokers) -> list[str]:
        """Whom to ask for now; none: nobody, and who asks is not one any more."""
        now_s = self._clock.monotonic_s()
        if not brokers.left and now_s >= brokers.next_s:
            brokers.next_s = now_s + POLL_EVERY_S
            brokers.begun += 1
            topics = set(brokers.topics.values())
            brokers.left = sorted(topics)
            brokers.reported = {name: reported for name, reported in brokers.reported.items() if name in topics}
        names, brokers.left = brokers.left[:_TOGETHER], brokers.left[_TOGETHER:]
        if not names:
            brokers.asking.release()
        return names


class MonitoredTopic:
    """One log's part in the looks. One thread."""

    def __init__(self, monitor: TopicMonitor, info: LogInfo, begun: int) -> None:
        self.info: Final = info
        self._monitor = monitor
        self._seen = begun

    def poll(self) -> tuple[TopicState | None] | None:
        """What brokers have said of the topic since the last call, None in it where it is gone; None: nothing.

        Blocks where it asks them.
        """
        reported = self._monitor.poll(self)
        if reported is None or reported[0] <= self._seen:
            return None
        self._seen, topic = reported
        return (topic,)

    def close(self) -> None:
        """Ends it; idempotent."""
        self._monitor.close(self)


def _to_key(options: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """What tells brokers and logins apart: the options by which any client reaches them. Secrets are references."""
    names = to_option_names()
    return frozenset((name, value) for name, value in options.items() if name in names)
