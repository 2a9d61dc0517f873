"""How many publishers share the work: each holds the lowest free one of some numbered leases.

Only the number of tables for each publisher depends on the count, so it may be wrong for a while. But it must not stay
too high: with shares for more publishers than exist, some tables have none. So only publishers with the same tables are
counted; publishers of other tables have numbered leases of their own.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import Fenced, LakelogError
from lakelog.format.jobs.work import MEMBERSHIP_LEASES
from lakelog.format.tables.table import TableName

_FREE_IN_A_ROW: Final = 2
"""After this many free leases in a row, no more members are looked for."""

LOOK_EVERY: Final = 5
"""Publishers that came are found by each fifth count: to try a free lease is to take it and give it back."""

_MOST: Final = 1000


class PublisherMembership:
    """A publisher's membership lease, and the count of all members. One thread.

    Args:
        metastore: Grants leases.
        holder: Our name.
        duration_ms: How long a lease is held without renewal.
        tables: The tables that we are to publish; empty: all.
    """

    def __init__(self, metastore: Metastore, holder: str, duration_ms: int, tables: Collection[TableName] = ()) -> None:
        self._metastore = metastore
        self._holder: Final = holder
        self._duration_ms: Final = duration_ms
        self._row: Final = _name_row(tables)
        # Its number, and the epoch of its lease.
        self._own: tuple[int, int] | None = None
        # One more than the last lease that was held when all were tried; how many counts more try only those below it.
        self._end = 0
        self._counts_left = 0

    def count(self) -> int:
        """Renews our lease, or takes a lower free one; returns how many are held, ours included, at least 1.

        Raises:
            Unavailable: The metastore does not answer.
        """
        self._keep()
        is_short = self._own is not None and self._counts_left > 0
        self._counts_left = self._counts_left - 1 if is_short else LOOK_EVERY - 1
        taken = free = end = 0
        for number in range(self._end if is_short else _MOST):
            if self._own is None or number != self._own[0]:
                grant = self._metastore.acquire_lease(self._name(number), self._holder, self._duration_ms)
                if grant.acquired and is_short:
                    # Who held it has left or died: the next count tries all.
                    self._counts_left = 0
                if grant.acquired and self._own is not None and number > self._own[0]:
                    self._metastore.release_lease(self._name(number), grant.epoch)
                    free += 1
                    if free == _FREE_IN_A_ROW:
                        break
                    continue
                if grant.acquired:
                    # SUBTLE: a member looks for a lower one, too. After the gap of several that have left it would not
                    # be found, and would publish, or leave to others, more than a share forever.
                    self.leave()
                    self._own = (number, grant.epoch)
            taken, free, end = taken + 1, 0, number + 1
        if not is_short:
            self._end = end
        return max(taken, 1)

    def leave(self) -> None:
        """Releases our lease; never raises lakelog errors."""
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
    """The common name of the leases of all that publish the same tables. Pure."""
    if not tables:
        return MEMBERSHIP_LEASES
    # The names may be longer than a lease's name may be.
    return f"{MEMBERSHIP_LEASES}/{hashlib.sha256(','.join(sorted(map(str, tables))).encode()).hexdigest()[:32]}"


def fair_share(tables: int, publishers: int) -> int:
    """The most tables that one of some publishers publishes. Pure."""
    return -(-tables // max(publishers, 1))
