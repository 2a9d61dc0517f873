"""Which tables a client may read: a client of the role `user` those that the metastore's grants let its name read.

Invariants:

1. A client of the role `user` begins nothing before the metastore has said that it may read each table.
2. While its subscription is open, nothing is sent that is checked by an answer older than `MAX_AGE_S`. An answer that
   does not come ends the subscription.
3. No position is stored and no consumer is kept by such an answer either, so a client without a right is noticed though
   nothing is sent.
4. A client without a right gets one and the same refusal, whether or not the table exists.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakelog.clock import Clock
from lakelog.errors import PermissionDenied, Unavailable
from lakelog.format.tables.grant import NO_GRANT, GrantLevel
from lakelog.format.tables.table import TableInfo
from lakelog.sdk.catalog import Catalog
from lakelog.serving.access import Caller, Role

MAX_AGE_S: Final = 3.0
"""How old the metastore's answer may be; the metastore's own knowledge of grants is as old at most."""

_MAX_CACHED: Final = 10_000
"""Answers, each for a caller and the tables of a subscription."""


class Rights:
    """Asks the metastore, and keeps its answers for a moment. Threads may share it.

    Args:
        catalog: The catalog of the metastore, where this service's own role is at least `reader`.
        clock: Measures the age of answers.
    """

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog = catalog
        self._clock = clock
        self._lock = threading.Lock()
        self._allowed_at_s: OrderedDict[tuple[str, tuple[str, ...]], float] = OrderedDict()

    def of(self, caller: Caller) -> ReadRight | None:
        """The right of a client; None: its role lets it read everything."""
        return None if caller.role >= Role.READER else ReadRight(self, caller.name)

    def is_known(self, caller: str, table_uuids: tuple[str, ...]) -> bool:
        """Whether the metastore has said a moment ago that a caller may read some tables."""
        with self._lock:
            allowed_at_s = self._allowed_at_s.get((caller, table_uuids))
        return allowed_at_s is not None and self._clock.monotonic_s() - allowed_at_s < MAX_AGE_S

    def find_refused(self, caller: str, table_uuids: tuple[str, ...]) -> list[str]:
        """Asks the metastore which of the tables a caller may not read. Blocks.

        Raises:
            Unavailable: It does not answer, or not to this service.
        """
        asked_at_s = self._clock.monotonic_s()
        try:
            refused = self._catalog.metastore.check_access(caller, GrantLevel.READER, table_uuids)
        except PermissionDenied as error:
            raise Unavailable(
                "This reader service may not ask the metastore who may read. Its operator must give it a token with "
                "the role reader.",
                reason="READER_WITHOUT_ROLE",
            ) from error
        if not refused:
            with self._lock:
                self._allowed_at_s[(caller, table_uuids)] = asked_at_s
                self._allowed_at_s.move_to_end((caller, table_uuids))
                while len(self._allowed_at_s) > _MAX_CACHED:
                    self._allowed_at_s.popitem(last=False)
        return refused


@dataclass
class ReadRight:
    """The right of one client of the role `user`, for the tables of its subscription.

    Args:
        rights: Asks the metastore.
        caller: The name of the client.
        tables: The uuids of its tables, with the names that the client gave.
    """

    rights: Rights
    caller: str
    tables: tuple[tuple[str, str], ...] = ()

    def check(self, tables: Mapping[str, TableInfo | None]) -> list[TableInfo]:
        """Checks the tables of a subscription that begins, and returns them. Blocks.

        Args:
            tables: The tables by their names; None: there is none.

        Raises:
            PermissionDenied: With the reason NO_GRANT. It names the first table that is missing or may not be read.
            Unavailable: The metastore does not answer, or not to this service.
        """
        found = {name: table for name, table in tables.items() if table is not None}
        self.tables = tuple((table.table_uuid, name) for name, table in found.items())
        refused = self.rights.find_refused(self.caller, self._uuids) if found else []
        for name in tables:
            if name not in found or found[name].table_uuid in refused:
                raise self._refusal(name)
        return list(found.values())

    @property
    def is_fresh(self) -> bool:
        """Whether nothing needs to be asked now."""
        return self.rights.is_known(self.caller, self._uuids)

    def check_if_old(self) -> None:
        """Checks the tables again unless that was done a moment ago. Blocks.

        Raises:
            PermissionDenied: With the reason NO_GRANT.
            Unavailable: The metastore does not answer, or not to this service.
        """
        if not self.is_fresh:
            self.check_still()

    def check_still(self) -> None:
        """Checks the tables again. Blocks.

        Raises:
            PermissionDenied: With the reason NO_GRANT.
            Unavailable: The metastore does not answer, or not to this service.
        """
        for uuid in self.rights.find_refused(self.caller, self._uuids):
            raise self._refusal(dict(self.tables)[uuid])

    @property
    def _uuids(self) -> tuple[str, ...]:
        return tuple(uuid for uuid, _ in self.tables)

    def _refusal(self, name: str) -> PermissionDenied:
        return PermissionDenied(
            f"{self.caller} has neither the role reader nor a grant of reader at table {name[:200]!r}. If it exists, "
            "its owner, the owner of its database or an admin can grant it: lakelog grant reader <database or table> "
            f"--to {self.caller}.",
            reason=NO_GRANT,
            metadata={"caller": self.caller, "needed": "reader", "scope": f"table {name[:200]!r}"},
        )
