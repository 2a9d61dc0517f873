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
4. An attempt that was opened for a commit of a named writer is used for no other commit: the metastore aborts it once
   that commit is applied.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lakelog.arguments import MAX_NUMBER
from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.format.tables.table import TableInfo

_USABLE_S: Final = 1.0
"""How long an attempt can wait for its use: many writes of milliseconds each, and hardly a delay when a user changes a
table's options."""

_MAX_AHEAD: Final = 8
"""Attempts of one call. With 8, opening costs an eighth; more would only leave more of them unused."""


@dataclass(frozen=True)
class CommitPurpose:
    """The commit that an attempt is for.

    Args:
        writer: The writer's name.
        identifier: The writer's number of the commit; None: the name is used once, so the commit has no other attempt.
        epoch: The writer's epoch.
    """

    writer: str
    identifier: int | None = None
    epoch: int = 0

    @property
    def count_from_here(self) -> int:
        """How many numbers follow from this one on, at most as many as attempts are opened ahead."""
        return _MAX_AHEAD if self.identifier is None else min(_MAX_AHEAD, MAX_NUMBER - self.identifier + 1)


@dataclass(frozen=True)
class OpenAttempt:
    """An attempt for one write.

    Args:
        attempt_id: Its id.
        info: The table as it was when the attempt was opened.
        opened_at_s: When it was asked for, on the monotonic clock.
        identifier: The number of the commit that it is for; None: any commit.
    """

    attempt_id: str
    info: TableInfo
    opened_at_s: float
    identifier: int | None = None


class _Key(NamedTuple):
    table_uuid: str
    writer: str
    """Empty: these attempts serve any name that is used once."""
    epoch: int


@dataclass
class _Ahead:
    """Attempts for one table and writer, the oldest first; how many the last call opened, and when."""

    count: int
    opened_at_s: float
    attempts: list[OpenAttempt] = field(default_factory=list)


class AttemptsAhead:
    """Opens attempts and hands them out. Threads may share it."""

    def __init__(self, metastore: Metastore, clock: Clock) -> None:
        self._metastore = metastore
        self._clock = clock
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._ahead: dict[_Key, _Ahead] = {}

    def take(self, table_uuid: str, purpose: CommitPurpose) -> OpenAttempt:
        """Returns an open attempt for one write that adds rows; calls the metastore if none is left.

        A named writer is assumed to number its commits one after the other: attempts for the next ones are opened
        ahead.

        Args:
            table_uuid: The table, the only one of the attempt so far.
            purpose: The commit that it is for. Its writer's name is stored with newly opened attempts.

        Raises:
            NotFound: The table was dropped; if an attempt is left, only the commit reports it.
        """
        with self._mine():
            now_s = self._clock.monotonic_s()
            key = _Key(table_uuid, "" if purpose.identifier is None else purpose.writer, purpose.epoch)
            ahead = self._ahead.get(key)
            if ahead is None:
                self._drop_unusable(now_s)
                ahead = self._ahead[key] = _Ahead(0, now_s)
            ahead.attempts = [each for each in ahead.attempts if now_s - each.opened_at_s < _USABLE_S]
            for attempt in ahead.attempts:
                if attempt.identifier == purpose.identifier:
                    ahead.attempts.remove(attempt)
                    return attempt
            # The remaining attempts are for other numbers: this writer's numbers do not follow each other.
            is_used_up = not ahead.attempts and now_s - ahead.opened_at_s < _USABLE_S
            count = max(1, min(2 * ahead.count, purpose.count_from_here)) if is_used_up else 1
            ahead.count, ahead.opened_at_s = count, now_s
        staged = self._metastore.stage_attempt(
            [table_uuid], purpose.writer, count=count, identifier=purpose.identifier, epoch=purpose.epoch
        )
        first, *further = [
            OpenAttempt(
                attempt_id,
                staged.tables[0],
                now_s,
                None if purpose.identifier is None else purpose.identifier + place,
            )
            for place, attempt_id in enumerate((staged.attempt_id, *staged.further_ids))
        ]
        with self._mine():
            ahead.attempts.extend(further)
        return first

    def forget(self, table_uuid: str) -> None:
        """Drops a table's open attempts: the table changed, or a commit failed. The orphan collector finds them."""
        with self._mine():
            for key in [key for key in self._ahead if key.table_uuid == table_uuid]:
                del self._ahead[key]

    def _drop_unusable(self, now_s: float) -> None:
        """Forgets old names; else a catalog that always writes under new names would remember all of them."""
        for key in [key for key, ahead in self._ahead.items() if now_s - ahead.opened_at_s >= _USABLE_S]:
            del self._ahead[key]

    def _mine(self) -> threading.Lock:
        if self._pid != os.getpid():
            # In a forked child the lock may have been held at that moment, and the attempts belong to the parent.
            self._pid, self._lock, self._ahead = os.getpid(), threading.Lock(), {}
        return self._lock
