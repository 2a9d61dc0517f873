"""What a store does for grants: a part of `metastore.store.transaction`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakelog.format.tables.grant import Grant, GrantLevel


@dataclass(frozen=True)
class HeldGrant:
    """One grant of a caller, with the present name of its table.

    Args:
        database: The database; of a table the one that it is in, or that it was in when it was dropped.
        table_uuid: The table; empty: the database.
        name: The table's name; empty: the database, or a dropped table.
        level: The level.
    """

    database: str
    table_uuid: str
    name: str
    level: GrantLevel


@dataclass(frozen=True)
class Readable:
    """The tables, live or dropped, that a caller may read by its grants.

    Args:
        databases: All tables of these, but not those that were dropped with an earlier database of the name.
        table_uuids: Further tables.
    """

    databases: frozenset[str]
    table_uuids: frozenset[str]


@dataclass(frozen=True)
class GrantScope:
    """What a grant is on: a database, or one table.

    Args:
        database: The database; empty: it is on a table.
        table_id: The table; 0: it is on a database.
    """

    database: str
    table_id: int


class GrantTransaction(Protocol):
    """Grants on databases and tables.

    Those on a database go with it. Those on a table stay while it is dropped, and go when its rows are purged.
    """

    async def load_held_grants(self, principal: str) -> list[HeldGrant]:
        """All grants of a caller, also those on dropped tables, in any order."""
        ...

    async def list_grants(self, scope: GrantScope, limit: int) -> list[Grant]:
        """The first grants on a database or a table, live or dropped, by caller."""
        ...

    async def list_grants_of(self, principal: str) -> list[Grant]:
        """The grants of a caller on databases and tables, also on dropped ones, by database, table and uuid."""
        ...

    async def count_grants(self, principal: str, scope: GrantScope, by: str, limit: int) -> tuple[int, int]:
        """How many grants there are on a scope, and how many a caller has from another, each at most the limit.

        It is called after one was made. If two transactions count those of one caller, the second waits for the end of
        the first. The scope is locked.
        """
        ...

    async def put_grant(self, principal: str, scope: GrantScope, level: GrantLevel, by: str) -> bool:
        """Makes a grant, or changes its level, on a locked scope; returns whether it is new.

        A grant that has the level already stays as it is, with its time.

        Args:
            principal: The caller that gets it.
            scope: What it is on.
            level: The level.
            by: The caller that grants it; empty: the metastore identifies no callers.
        """
        ...

    async def find_grant(self, principal: str, scope: GrantScope) -> Grant | None:
        """A grant on a database or a table, live or dropped."""
        ...

    async def delete_grant(self, principal: str, scope: GrantScope) -> bool:
        """Removes a grant; False: there was none."""
        ...

    async def find_databases_of(self, table_uuids: Sequence[str]) -> dict[str, str]:
        """The databases of those tables that are known, live or dropped.

        Empty: the table was dropped, and so was its database, then or later.
        """
        ...

    async def find_table_uuid(self, database: str, name: str) -> str | None:
        """The uuid of a live table, by its name."""
        ...

    async def find_pipeline_table(self, name: str) -> str | None:
        """The full name of the table for which a pipeline has reported, live or not; None: none of this name has."""
        ...

    async def find_attempt_tables(self, attempt_id: str) -> tuple[str, ...] | None:
        """The uuids of an attempt's tables, without locking it; None: there is no such attempt."""
        ...
