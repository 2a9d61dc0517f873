"""How far a stream from its table's log goes: to the high watermark of the log."""

from __future__ import annotations

import itertools
import time

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import NotFound
from lakelog.reads.log.records import PAUSES_S
from lakelog.reads.log.stall import LogStallTimer


class LogHighWatermark:
    """Knows how far a table's log is published, and whether its publisher is stuck.

    Args:
        metastore: Receives the reports of publishers.
        table_uuid: The table.
    """

    def __init__(self, metastore: Metastore, table_uuid: str) -> None:
        self._metastore = metastore
        self._table_uuid = table_uuid
        self._progress: tuple[int, int, int] | None = None
        self._stall_timer = LogStallTimer()

    def find(self, until: int) -> int:
        """How far the stream goes, `until` at most; `until` also if the publisher is stuck."""
        try:
            state = self._metastore.get_publish_state(self._table_uuid)
        except NotFound as error:
            # The table has no log any more; if the table itself is gone, the read reports it.
            if error.reason == "TABLE_NOT_FOUND":
                raise
            return until
        if state.snapshot_id >= until:
            # A publisher without work is not stuck.
            self._progress = None
            return until
        progress = state.generation, state.snapshot_id, state.next_index
        if progress != self._progress:
            self._progress = progress
            self._stall_timer.renew()
        return until if self._stall_timer.is_over else state.snapshot_id

    def wait(self, after: int, until: int, timeout_s: float | None) -> int:
        """As `find`, once the result is after `after`, or the time has passed; None: until the publisher is stuck.

        Args:
            after: Less than `until`.
            until: As of `find`.
            timeout_s: How long at most.
        """
        began_s = time.monotonic()
        pauses_s = itertools.chain(PAUSES_S, itertools.repeat(PAUSES_S[-1]))
        while (found := self.find(until)) <= after:
            pause_s = next(pauses_s)
            if timeout_s is not None and time.monotonic() - began_s + pause_s > timeout_s:
                break
            time.sleep(pause_s)
        return found
