"""What a publisher holds from one restart until the next doubtful event."""

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
"""A producer costs connections and half a percent of a processor, even if it sends nothing."""


@dataclass
class Session:
    """What holds from a restart until something is doubtful.

    Args:
        info: The log.
        producer: A started producer.
        feed: The snapshots after the position.
        topic: Checked after each poll of it.
        position: What is published.
        offsets: Where the log ends after it, by partition.
        busy_s: When it last had something to publish, by the monotonic clock.
        waiting: Unpublished snapshots, in their order; the first may be partly published.
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
        """Closes a producer that has long been idle: the next snapshot then needs a restart, of some 70 ms."""
        if now_s - self.busy_s >= REST_AFTER_S:
            with contextlib.suppress(LakelogError):
                self.producer.close()

    def close(self) -> None:
        """Closes all of it; idempotent, never raises lakelog errors."""
        self.feed.close()
        self.topic.close()
        with contextlib.suppress(LakelogError):
            self.producer.close()
