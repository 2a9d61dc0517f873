"""Attempts opened ahead: many small writes in a row share one call to the metastore.

Opening an attempt is a call and a transaction with its flush to disk, a third of what a write of 100 rows costs. So a
catalog that writes to a table again and again opens several attempts with one call and uses them one after the other.

Invariants:

1. An attempt is handed out once, and never in a forked child or an unpickled copy: the folder of its files is one
   writer's alone.
2. An attempt that is handed out was opened within the last `_USABLE_S`, and so was the table's state read. So a write
   sees a state that is at most as old as for a write that takes so long. The commit checks again what would matter
   (reliability C4, C5).
3. A caller that writes once opens one attempt: only a batch that was used up in time is followed by a larger one.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.format.tables.table import TableInfo

_USABLE_S: Final = 1.0
"""How long an attempt can wait for its use: many writes of milliseconds each, and hardly a delay when a user changes a
table's options."""

_MAX_AHEAD: Final = 8
"""Attempts of one call. With 8, opening costs an eighth; more would only leave more of them unused."""


@dataclass(frozen=True)
class OpenAttempt:
    """An attempt for one write.

    Args:
        attempt_id: Its id.
        info: The table as it was when the attempt was opened.
        opened_at_s: When it was asked for, on the monotonic clock.
    """

    attempt_id: str
    info: TableInfo
    opened_at_s: float


@dataclass
class _Ahead:
    """One table's attempts, the oldest first; and how many the last call for it opened, and when."""

    count: int
    opened_at_s: float
    attempts: deque[OpenAttempt] = field(default_factory=deque)


class AttemptsAhead:
    """Opens attempts and hands them out. Threads may share it.

    Args:
        metastore: Opens them.
        clock: For their age.
    """

    def __init__(self, metastore: Metastore, clock: Clock) -> None:
        self._metastore = metastore
        self._clock = clock
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._ahead: dict[str, _Ahead] = {}

    def take(self, table_uuid: str, writer: str) -> OpenAttempt:
        """Returns an open attempt for one write that adds rows; calls the metastore if none is left.

        Args:
            table_uuid: The table, the only one of the attempt so far.
            writer: The writer name that is stored with newly opened attempts.

        Raises:
            NotFound: The table was dropped; if an attempt is left, only the commit reports it.
        """
        with self._mine():
            now_s = self._clock.monotonic_s()
            ahead = self._ahead.setdefault(table_uuid, _Ahead(0, now_s))
            while ahead.attempts:
                attempt = ahead.attempts.popleft()
                if now_s - attempt.opened_at_s < _USABLE_S:
                    return attempt
            in_time = now_s - ahead.opened_at_s < _USABLE_S
            count = max(1, min(2 * ahead.count, _MAX_AHEAD)) if in_time else 1
            ahead.count, ahead.opened_at_s = count, now_s
        staged = self._metastore.stage_attempt([table_uuid], writer, count=count)
        first, *further = [
            OpenAttempt(attempt_id, staged.tables[0], now_s) for attempt_id in (staged.attempt_id, *staged.further_ids)
        ]
        with self._mine():
            ahead.attempts.extend(further)
        return first

    def forget(self, table_uuid: str) -> None:
        """Drops a table's open attempts: the table changed, or a commit failed. The orphan collector finds them."""
        with self._mine():
            self._ahead.pop(table_uuid, None)

    def _mine(self) -> threading.Lock:
        if self._pid != os.getpid():
            # In a forked child the lock may have been held at that moment, and the attempts belong to the parent.
            self._pid, self._lock, self._ahead = os.getpid(), threading.Lock(), {}
        return self._lock
