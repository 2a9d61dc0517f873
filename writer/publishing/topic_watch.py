"""Whether the topic that a publisher writes to is still the one in which its log began (RELIABILITY.md R9, R10).

A fresh start finds that out, but a publisher may go on for weeks without one, and its brokers take records for a topic
that was made anew as they took those for the old one. So:

1. What was appended ends behind all that was published before: offsets only rise in a topic that is the same.
2. Now and then the topic is looked at as by a fresh start, also where nothing is published.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lakelog.clock import Clock
from lakelog.errors import LakelogError
from lakelog.format.log_state import LogInfo
from lakelog.log.protocol import Log
from lakelog.log.records import TopicState

from .recovery import check_same_topic, diverged

LOOK_EVERY_S: Final = 10.0
"""A look takes some 10 ms and a connection."""


class TopicWatch:
    """Looks at a topic now and then. One thread.

    Args:
        open_log: Its brokers, with the credentials that hold at that moment.
        info: The log.
        check: Raises what is wrong with the topic's settings.
        clock: For the time.
    """

    def __init__(
        self,
        open_log: Callable[[LogInfo], Log],
        info: LogInfo,
        check: Callable[[LogInfo, TopicState], None],
        clock: Clock,
    ) -> None:
        self._open_log = open_log
        self._info: Final = info
        self._check = check
        self._clock = clock
        self._next_s = clock.monotonic_s() + LOOK_EVERY_S

    def look(self) -> None:
        """Looks, where it is time again; blocks.

        Raises:
            HistoryDiverged: The topic is gone, or was made anew.
            InvalidArgument: It does not fit any more.
        """
        now_s = self._clock.monotonic_s()
        if now_s < self._next_s:
            return
        self._next_s = now_s + LOOK_EVERY_S
        try:
            with contextlib.closing(self._open_log(self._info).open_admin()) as admin:
                found = admin.find_topic(self._info.topic)
        except LakelogError:
            # That says nothing of the topic. Where brokers are away, who sends to them says so; and while they let no
            # new connection in, whose password has changed, the one that is open goes on.
            return
        self._check(self._info, check_same_topic(self._info, found))


def check_appended(info: LogInfo, ends: Sequence[int], appended: Mapping[int, Mapping[int, int]]) -> None:
    """Check that a transaction's records stand behind all that was published before. Pure.

    Args:
        info: The log.
        ends: Where that ends, by partition.
        appended: Where the transaction's records end, by snapshot and partition.

    Raises:
        HistoryDiverged: They do not: they are in another topic, or what was published before was cut off.
    """
    for snapshot_id, behind in appended.items():
        for partition, offset in behind.items():
            if offset <= ends[partition]:
                raise diverged(
                    info,
                    f"Partition {partition} of the topic {info.topic} took snapshot {snapshot_id} before offset "
                    f"{offset}, though it had been published up to {ends[partition]}: the topic was cut or made anew.",
                )
