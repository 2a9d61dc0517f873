"""Polls the topics of all tables that a process publishes: those of the same brokers together, over one connection.

A separate poll for each table would cost a connection, a thread and 0.2 s of waiting, thousands of times.

1. The first caller after the time of a poll, while no poll runs, polls its own and other topics, but only as many as
   take a moment; the next caller polls the next ones. No caller waits for a poll of another: it gets the result with
   its next call.
2. A poll reports a topic only to callers that existed when it began: a result from before a restart is older than
   the facts of the restart.
3. Brokers that do not answer say nothing about any topic. The next poll uses a new client, with the credentials of that
   moment.
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
"""How late it is noticed that a topic is gone. For 1,000 topics a poll takes 0.3 s of CPU."""

_TOGETHER: Final = 100
"""Topics that one caller polls: some 0.1 s, and 600 KB of settings."""


@dataclass(eq=False)
class _Brokers:
    """Brokers that are reached with the same options.

    Args:
        next_s: When it is time for the next poll.
        topics: The callers that follow each topic.
        begun: How many polls of all topics have begun.
        left: The topics that this poll still has to request; only for the polling caller.
        reported: The last result for each topic, None if it is gone, and the number of its poll.
        asking: Held by the polling caller.
        admin: Open between requests; only for the polling caller.
    """

    next_s: float
    topics: dict[MonitoredTopic, str] = field(default_factory=dict)
    begun: int = 0
    left: list[str] = field(default_factory=list)
    reported: dict[str, tuple[int, TopicState | None]] = field(default_factory=dict)
    asking: threading.Lock = field(default_factory=threading.Lock)
    admin: TopicAdmin | None = None

    def end(self) -> None:
        """Closes what is open between polls."""
        admin, self.admin = self.admin, None
        if admin is not None:
            with contextlib.suppress(LakelogError):
                admin.close()


class TopicMonitor:
    """Polls topics now and then for the callers that follow them. Thread-safe.

    Args:
        open_log: Opens the brokers of a log, with the credentials that are valid at that moment.
        clock: For the time.
    """

    def __init__(self, open_log: Callable[[LogInfo], Log], clock: Clock) -> None:
        self._open_log = open_log
        self._clock = clock
        self._lock = threading.Lock()
        self._brokers: dict[frozenset[tuple[str, str]], _Brokers] = {}

    def open(self, info: LogInfo) -> MonitoredTopic:
        """Has a log's topic polled from now on, until the returned object is closed."""
        key = _to_key(info.options)
        with self._lock:
            brokers = self._brokers.setdefault(key, _Brokers(self._clock.monotonic_s() + POLL_EVERY_S))
            monitored = MonitoredTopic(self, info, brokers.begun)
            brokers.topics[monitored] = info.topic
        return monitored

    def close(self, monitored: MonitoredTopic) -> None:
        """Ends the polling of the topic for this caller. Idempotent."""
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
        """The last result for a topic, and its poll; polls and blocks if it is time and no other caller does."""
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
            # That says nothing about the topics. If brokers are away, a sender to them reports it. If they refuse new
            # connections, because a password has changed, the open ones continue.
            brokers.end()
            brokers.left = []
        finally:
            brokers.asking.release()
        with self._lock:
            brokers.reported |= {name: (number, state) for name, state in found.items()}
            return brokers.reported.get(monitored.info.topic)

    def _pick_names(self, brokers: _Brokers) -> list[str]:
        """The topics to request now; none: no more are left, and the caller stops polling."""
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
    """The topic of one log in the polls. One thread."""

    def __init__(self, monitor: TopicMonitor, info: LogInfo, begun: int) -> None:
        self.info: Final = info
        self._monitor = monitor
        self._seen = begun

    def poll(self) -> tuple[TopicState | None] | None:
        """What brokers have reported of the topic since the last call, with None in it if it is gone; None: nothing.

        Blocks if this caller polls.
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
    """What distinguishes brokers and logins: the options with which any client reaches them. Secrets are references."""
    names = to_option_names()
    return frozenset((name, value) for name, value in options.items() if name in names)
