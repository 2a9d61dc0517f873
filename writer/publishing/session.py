"""What a publisher has in hand between a fresh start and the next doubt."""

from __future__ import annotations

import contextlib
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from lakelog.errors import LakelogError
from lakelog.format.log.state import LogInfo
from lakelog.log.protocol import LogProducer
from lakelog.log.records import LogPosition

from .reading.feed import SnapshotFeed
from .reading.snapshot_log import SnapshotLog
from .topics.watch import TopicWatch

REST_AFTER_S: Final = 60.0
"""A producer costs connections and half a percent of a processor, though it has nothing to send."""


@dataclass
class Session:
    """What holds from a fresh start on, until there is a doubt.

    Args:
        info: The log.
        producer: Started.
        feed: Behind the position.
        topic: Judged whenever it was looked at.
        position: What is published.
        offsets: Where the log ends behind it, by partition.
        busy_s: When it last had something to publish, by the monotonic clock.
        waiting: Snapshots that are not published, in their order; the first may be in part.
    """

    info: LogInfo
    producer: LogProducer
    feed: SnapshotFeed
    topic: TopicWatch
    position: LogPosition
    offsets: list[int]
    busy_s: float
    waiting: deque[SnapshotLog] = field(default_factory=deque)

    def rest(self, now_s: float) -> None:
        """Lets a producer go that has long had nothing to do: the next snapshot needs a fresh start, of some 70 ms."""
        if now_s - self.busy_s >= REST_AFTER_S:
            with contextlib.suppress(LakelogError):
                self.producer.close()

    def close(self) -> None:
        """Closes all of it; idempotent, never raises lakelog errors."""
        self.feed.close()
        self.topic.close()
        with contextlib.suppress(LakelogError):
            self.producer.close()
