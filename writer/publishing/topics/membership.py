"""How many publishers share the work: each sits on the lowest free one of some numbered leases.

Nothing depends on the count but who publishes how many tables, so that it may be wrong for a while. But it must not
stay too high: shares of more publishers than there are leave tables to nobody. So only those are counted that share the
same tables; who was told to publish others has a row of seats elsewhere.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import Fenced, LakelogError
from lakelog.format.tables.table import TableName

_FREE_IN_A_ROW: Final = 2
"""Behind so many free seats nobody is looked for."""

_MOST: Final = 1000


class PublisherMembership:
    """A publisher's seat, and a look at the others'. One thread.

    Args:
        metastore: Who grants leases.
        holder: Who we are.
        duration_ms: How long a seat is kept without a word.
        tables: Those that we were told to publish; none: all that there are.
    """

    def __init__(self, metastore: Metastore, holder: str, duration_ms: int, tables: Collection[TableName] = ()) -> None:
        self._metastore = metastore
        self._holder: Final = holder
        self._duration_ms: Final = duration_ms
        self._row: Final = _name_row(tables)
        # Its number, and the epoch of its lease.
        self._own: tuple[int, int] | None = None

    def count(self) -> int:
        """Keeps our seat, or takes a lower one that is free; how many are taken, ours included, at least 1.

        Raises:
            Unavailable: The metastore does not answer.
        """
        self._keep()
        taken = free = 0
        for number in range(_MOST):
            if self._own is not None and number == self._own[0]:
                taken, free = taken + 1, 0
                continue
            grant = self._metastore.acquire_lease(self._name(number), self._holder, self._duration_ms)
            if not grant.acquired:
                taken, free = taken + 1, 0
            elif self._own is None or number < self._own[0]:
                # SUBTLE: also who has one. Behind those of several that have left nobody would be looked for, and who
                # sits there would publish, or leave to others, more than a share for ever.
                self.leave()
                self._own = (number, grant.epoch)
                taken, free = taken + 1, 0
            else:
                self._metastore.release_lease(self._name(number), grant.epoch)
                free += 1
                if free == _FREE_IN_A_ROW:
                    break
        return max(taken, 1)

    def leave(self) -> None:
        """Gives our seat back; never raises lakelog errors."""
        own, self._own = self._own, None
        if own is not None:
            number, epoch = own
            with contextlib.suppress(LakelogError):
                # The lease ends by itself.
                self._metastore.release_lease(self._name(number), epoch)

    def _keep(self) -> None:
        if self._own is None:
            return
        number, epoch = self._own
        try:
            self._metastore.renew_lease(self._name(number), epoch, self._duration_ms)
        except Fenced:
            self._own = None

    def _name(self, number: int) -> str:
        return f"{self._row}/{number}"


def _name_row(tables: Collection[TableName]) -> str:
    """What the seats of all that publish the same tables are called. Pure."""
    if not tables:
        return "publisher-seat"
    # Of names there may be more than a lease's name has room for.
    return f"publisher-seat/{hashlib.sha256(','.join(sorted(map(str, tables))).encode()).hexdigest()[:32]}"


def fair_share(tables: int, publishers: int) -> int:
    """How many of some tables one of some publishers publishes at most. Pure."""
    return -(-tables // max(publishers, 1))
