"""Grants: what other callers may do with a database or a table."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from lakelog.arguments import check_text, parse_table_name
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.tables.grant import GrantLevel, find_caller_problem

_SCHEMA: Final = pa.schema(
    [
        ("scope", pa.string()),
        ("principal", pa.string()),
        ("level", pa.string()),
        ("granted_by", pa.string()),
        ("granted_at", pa.timestamp("ms", tz="UTC")),
        ("uuid", pa.string()),
        ("dropped_at", pa.timestamp("ms", tz="UTC")),
    ]
)


class Grants:
    """Grants on databases and tables; `Catalog.grants` makes it.

    An owner of a database or table, and an admin, grants there, takes back and lists. Each caller can list its own.

    Args:
        metastore: Stores the grants.
    """

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore

    def grant(self, level: str, scope: str, to: str) -> bool:
        """Lets another caller read, write or own a table, or a database with all its tables, also later ones.

        A caller that has another level there has this one from now on.

        Args:
            level: `reader`, `writer` or `owner`; each may do all that the ones before it may. An owner alters, drops
                and restores a table and grants on it; an owner of a database makes tables in it, too.
            scope: `database` or `database.table`.
            to: The name of the caller, as in the metastore's token file or in its certificate.

        Returns:
            Whether it counts. False: this metastore identifies no callers, so each may do everything.

        Raises:
            InvalidArgument: The level, the scope or the name is not valid.
            NotFound: There is no such database or table.
            PermissionDenied: Only an owner there or an admin may do this.
            ResourceExhausted: There are 10,000 grants on it already, or the caller has as many from you.
        """
        database, table = _parse_scope(scope)
        granted = self._metastore.grant(database, table, _parse_level(level), _check_caller(to, "to"))
        return not granted.has_no_effect

    def revoke(self, scope: str | None, from_: str, *, uuid: str | None = None) -> None:
        """Takes a grant back, within seconds also from what the caller has open.

        A caller with a grant on a table and on its database keeps the other one.

        Args:
            scope: `database` or `database.table`, as it was granted; None: a table by its uuid.
            from_: The name of the caller.
            uuid: The uuid of the table; for a dropped one.

        Raises:
            NotFound: There is no such database or table, or no such grant.
            PermissionDenied: Only an owner there or an admin may do this.
        """
        if scope is None and uuid is None:
            raise InvalidArgument(
                "Neither scope nor uuid is given: name what the grant is on.", metadata={"field": "scope"}
            )
        database, table, table_uuid = _parse_place(scope, uuid)
        self._metastore.revoke(database, table, _check_caller(from_, "from_"), table_uuid=table_uuid)

    def list(self, scope: str | None = None, *, to: str | None = None, uuid: str | None = None) -> pa.Table:
        """Lists the grants on exactly one database or table, or those of one caller, also on dropped tables.

        Grants on a dropped table count again if it is restored, and go when it is purged.

        Args:
            scope: `database` or `database.table`; None: all that the caller `to` has.
            to: Only grants of this caller; None without a scope: your own.
            uuid: The uuid of a table in place of the scope; for a dropped one.

        Returns:
            Columns scope, principal (the caller), level, granted_by (empty: not known), granted_at, uuid (of the table;
                empty: a database), dropped_at (null: it was not dropped).

        Raises:
            NotFound: There is no such database or table.
            PermissionDenied: Only an owner there or an admin may see grants of others.
        """
        database, table, table_uuid = _parse_place(scope, uuid)
        principal = "" if to is None else _check_caller(to, "to")
        found = self._metastore.list_grants(database, table, principal, table_uuid=table_uuid)
        rows = [
            {
                "scope": each.scope,
                "principal": each.principal,
                "level": each.level.name.lower(),
                "granted_by": each.granted_by,
                "granted_at": each.granted_at_ms,
                "uuid": each.table_uuid,
                "dropped_at": each.dropped_at_ms or None,
            }
            for each in found
        ]
        columns = [pa.array([row[field.name] for row in rows], field.type) for field in _SCHEMA]
        return pa.table(columns, schema=_SCHEMA)


def _parse_level(level: Any) -> GrantLevel:
    found = next((each for each in GrantLevel if each.name.lower() == level), None)
    if found is None:
        raise InvalidArgument(
            f"level={level!r:.80} is no level of a grant. Use 'reader', 'writer' or 'owner'.",
            metadata={"field": "level"},
        )
    return found


def _parse_place(scope: str | None, uuid: str | None) -> tuple[str, str, str]:
    if uuid is None:
        return (*(("", "") if scope is None else _parse_scope(scope)), "")
    check_text(uuid, "uuid", "0123456789abcdef0123456789abcdef")
    if scope is not None:
        raise InvalidArgument(
            f"scope={scope!r:.80} and uuid={uuid!r:.80} are two places: give one of them.", metadata={"field": "uuid"}
        )
    if not uuid:
        # Else it would mean all that the caller has.
        raise InvalidArgument("uuid is empty: give the uuid of a table.", metadata={"field": "uuid"})
    return "", "", uuid


def _parse_scope(scope: str) -> tuple[str, str]:
    check_text(scope, "scope", "shop.orders")
    if scope and "." not in scope:
        return scope, ""
    name = parse_table_name(scope)
    return name.database, name.name


def _check_caller(name: str, argument: str) -> str:
    check_text(name, argument, "ann")
    problem = find_caller_problem(name)
    if problem is not None:
        raise InvalidArgument(
            f"{argument}={name!r:.80} is no name of a caller. {problem}", metadata={"field": argument}
        )
    return name
