"""Whether the topic that a publisher writes to is still the one in which its log began (reliability R9, R10).

A fresh start finds that out, but a publisher may go on for weeks without one, and its brokers take records for a topic
that was made anew as they took those for the old one. So:

1. What was appended ends behind all that was published before: offsets only rise in a topic that is the same.
2. Now and then the topic is looked at as by a fresh start, also where nothing is published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lakelog.format.log.state import LogInfo
from lakelog.log.records import TopicState

from ..recovery import check_same_topic, diverged
from .monitor import TopicMonitor


class TopicWatch:
    """Judges a topic whenever it was looked at. One thread.

    Args:
        monitor: Of all tables.
        info: The log.
        found: The topic as the fresh start has found it and thought it right.
        check: Raises what is wrong with the topic's settings.
    """

    def __init__(
        self,
        monitor: TopicMonitor,
        info: LogInfo,
        found: TopicState | None,
        check: Callable[[LogInfo, TopicState], None],
    ) -> None:
        self._info: Final = info
        self._right = found
        self._check = check
        self._monitored = monitor.open(info)

    def poll(self) -> None:
        """Looks, where it is time again and nobody else does, which blocks; judges what was seen since the last call.

        Raises:
            HistoryDiverged: The topic is gone, or was made anew.
            InvalidArgument: It does not fit any more.
        """
        seen = self._monitored.poll()
        if seen is None:
            return
        topic = check_same_topic(self._info, *seen)
        # What it has to be like is asked of the metastore, and another since it was told by other options of the log,
        # with which there is a fresh start.
        if topic != self._right:
            self._check(self._info, topic)
            self._right = topic

    def close(self) -> None:
        """The topic is not looked at any more; idempotent."""
        self._monitored.close()


def check_appended(info: LogInfo, ends: Sequence[int], appended: Mapping[int, Mapping[int, int]]) -> None:
    """Check that a transaction's records stand behind all that was published before. Pure.

    Args:
        info: The log.
        ends: Where that ends, by partition.
        appended: Where the transaction's records end, by snapshot and partition.

    Raises:
        HistoryDiverged: They do not: they are in another topic, or what was published before was cut off.
    """
    for snapshot_id, next_offsets in appended.items():
        for partition, offset in next_offsets.items():
            if offset <= ends[partition]:
                raise diverged(
                    info,
                    f"Partition {partition} of the topic {info.topic} took snapshot {snapshot_id} before offset "
                    f"{offset}, though it had been published up to {ends[partition]}: the topic was cut or made anew.",
                )
