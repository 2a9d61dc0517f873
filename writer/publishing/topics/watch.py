"""Whether the topic that a publisher writes to is still the one in which its log began (reliability R9, R10).

A restart finds that out, but a publisher may run for weeks without one, and its brokers accept records for a topic that
was made again as they did for the old one. So:

1. Appended records must end after all that was published before: in the same topic offsets only rise.
2. The topic is polled now and then as after a restart, also if nothing is published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lakelog.format.log.state import LogInfo
from lakelog.log.records import TopicState

from ..recovery import check_same_topic, diverged
from .monitor import TopicMonitor


class TopicWatch:
    """Checks a topic after each poll of it. One thread.

    Args:
        monitor: Polls the topics of all tables.
        info: The log.
        found: The state of the topic that the restart found and accepted.
        check: Raises the problem of the topic's settings.
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
        """Polls if it is time and no other caller does, which blocks; checks the results since the last call.

        Raises:
            HistoryDiverged: The topic is gone, or was made again.
            InvalidArgument: It no longer fits.
        """
        seen = self._monitored.poll()
        if seen is None:
            return
        topic = check_same_topic(self._info, *seen)
        # The metastore says what it has to be like. It reports changes as other options of the log, with which there is
        # a
        # restart.
        if topic != self._right:
            self._check(self._info, topic)
            self._right = topic

    def close(self) -> None:
        """Ends the polling of the topic; idempotent."""
        self._monitored.close()


def check_appended(info: LogInfo, ends: Sequence[int], appended: Mapping[int, Mapping[int, int]]) -> None:
    """Check that a transaction's records come after all that was published before. Pure.

    Args:
        info: The log.
        ends: Where the earlier records end, by partition.
        appended: Where the transaction's records end, by snapshot and partition.

    Raises:
        HistoryDiverged: They do not: they are in another topic, or earlier records were cut off.
    """
    for snapshot_id, next_offsets in appended.items():
        for partition, offset in next_offsets.items():
            if offset <= ends[partition]:
                raise diverged(
                    info,
                    f"Partition {partition} of the topic {info.topic} took snapshot {snapshot_id} before offset "
                    f"{offset}, though it had been published up to {ends[partition]}: the topic was cut or made anew.",
                )
