"""Who may do what with which database or table: a part of `Metastore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakelog.format.tables.grant import Grant, Granted, GrantLevel, Identity


class Grants(Protocol):
    """Grants on databases and tables."""

    def grant(self, database: str, table: str, level: GrantLevel, principal: str) -> Granted:
        """Grants a level on a table or, without a table, on a database and all tables in it. Idempotent.

        A caller that has another level there already has this one from now on.

        Args:
            database: The database.
            table: The table; empty: the database.
            level: What the caller may do.
            principal: The name of the caller.

        Raises:
            NotFound: There is no such database or table.
            ResourceExhausted: The scope has, or the caller has, as many grants as possible.
            PermissionDenied: Only an owner there or an admin may do this.
        """
        ...

    def revoke(self, database: str, table: str, principal: str, *, table_uuid: str = "") -> None:
        """Takes a grant back. A caller that has a grant on the database as well keeps that one.

        Args:
            database: The database.
            table: The table; empty: the database.
            principal: The name of the caller.
            table_uuid: The table, dropped or not; then database and table are empty.

        Raises:
            NotFound: There is no such database or table, or the caller has no grant on exactly this one.
            PermissionDenied: Only an owner there or an admin may do this.
        """
        ...

    def list_grants(
        self, database: str = "", table: str = "", principal: str = "", *, table_uuid: str = ""
    ) -> list[Grant]:
        """Grants on exactly one database or table by caller, or those of a caller by database and table.

        Those of a caller include grants on dropped tables.

        Args:
            database: The database; empty: all that the caller `principal` has.
            table: The table; empty: the database itself.
            principal: Only its grants; empty without a database: those of the calling one.
            table_uuid: The table, dropped or not; then database and table are empty.

        Raises:
            NotFound: There is no such database or table.
            PermissionDenied: Only an owner there or an admin may do this. Each caller may list its own grants.
        """
        ...

    def check_access(self, principal: str, level: GrantLevel, table_uuids: Sequence[str]) -> list[str]:
        """Finds those tables at which the grants of a caller do not suffice, or which do not exist; for services.

        Roles do not count here. A change of grants shows after a few seconds at most.
        """
        ...

    def who_am_i(self, table_uuids: Sequence[str] = ()) -> Identity:
        """Who the caller is, as the metastore knows it, and what it may do at some tables, at most 1000.

        A table that it may not see and one that does not exist look alike. A change of grants shows after a few seconds
        at most. What it does is checked again when it does it.
        """
        ...
