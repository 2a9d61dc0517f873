"""Grants: made, taken back and listed. The server has checked who may do that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lakelog.errors import NotFound, ResourceExhausted
from lakelog.format.tables.grant import Grant, Granted, GrantLevel, find_caller_problem, name_scope
from lakelog.format.tables.table import TableName

from ..ownership import Principal
from ..store.grants import GrantScope
from ..store.transaction import Store, Transaction, run_transaction
from ..store.validation import check_name, check_table_uuids, check_uuid, invalid
from ..tables.catalog import database_not_found, table_not_found
from ..tables.dropped import explain_gone
from .checking import GrantChecks
from .needs import Need, NeedKind

MAX_GRANTS: Final = 10_000
"""Grants on one database or table, and from one caller to another: they are listed in one answer, and cached."""

MAX_CHECKED: Final = 1000
"""Tables of one check."""


class Grants:
    """The use cases of grants.

    Args:
        store: Where everything is stored.
        checks: Finds out what the grants of a caller allow.
        changed: Called with a caller of which a grant was made, changed or taken back.
    """

    def __init__(self, store: Store, checks: GrantChecks, changed: Callable[[str], None]) -> None:
        self._store = store
        self._checks = checks
        self._changed = changed

    async def grant(self, database: str, table: str, level: GrantLevel, principal: str, *, by: Principal) -> Granted:
        _check_scope(database, table)
        _check_caller(principal)

        async def put(tx: Transaction) -> tuple[Grant, bool]:
            scope = await _lock_scope(tx, database, table)
            before = await tx.find_grant(principal, scope)
            if before is not None and before.level is level:
                return before, False
            if await tx.put_grant(principal, scope, level, by.name):
                # An error here undoes it.
                on_scope, of_principal = await tx.count_grants(principal, scope, by.name, MAX_GRANTS + 1)
                if on_scope > MAX_GRANTS:
                    raise _too_many(f"On {name_scope(database, table)} there are")
                # Those of others do not count: else one owner could keep all others from granting to a caller.
                if of_principal > MAX_GRANTS:
                    raise _too_many(f"From {by.name or 'you'} {principal} has")
            found = await tx.find_grant(principal, scope)
            assert found is not None, "it was just made, and its scope is locked"
            return found, True

        granted, is_changed = await run_transaction(self._store, put)
        # Else one owner could keep every cache of all metastores empty.
        if is_changed:
            self._changed(principal)
        return Granted(granted, has_no_effect=not by.name)

    async def revoke(self, database: str, table: str, principal: str, *, table_uuid: str = "") -> None:
        _check_scope_or_uuid(database, table, table_uuid)
        _check_caller(principal)

        async def delete(tx: Transaction) -> None:
            scope = await (_lock_table(tx, table_uuid) if table_uuid else _lock_scope(tx, database, table))
            if not await tx.delete_grant(principal, scope):
                shown = f"table {table_uuid}" if table_uuid else name_scope(database, table)
                raise NotFound(
                    f"{principal} has no grant on exactly {shown}, so there is nothing to take back. "
                    f"lakelog grants {f'--uuid {table_uuid}' if table_uuid else shown} lists the grants on it.",
                    reason="GRANT_NOT_FOUND",
                    metadata={"scope": shown, "principal": principal},
                )

        await run_transaction(self._store, delete)
        self._changed(principal)

    async def list_grants(
        self, database: str = "", table: str = "", principal: str = "", *, table_uuid: str = "", by: Principal
    ) -> list[Grant]:
        if principal:
            _check_caller(principal)
        if database or table or table_uuid:
            _check_scope_or_uuid(database, table, table_uuid)
        wanted = principal or by.name

        async def load(tx: Transaction) -> list[Grant]:
            if not database and not table_uuid:
                return await tx.list_grants_of(wanted) if wanted else []
            scope = await (_find_table(tx, table_uuid) if table_uuid else _find_scope(tx, database, table))
            found = await tx.find_grant(principal, scope) if principal else None
            listed = await tx.list_grants(scope, MAX_GRANTS) if not principal else [found] if found else []
            if (
                not listed
                and not table
                and database
                and database not in [each.name for each in await tx.list_databases()]
            ):
                raise await database_not_found(tx, database)
            return listed

        return await run_transaction(self._store, load)

    async def check_access(self, principal: str, level: GrantLevel, table_uuids: Sequence[str]) -> list[str]:
        _check_caller(principal)
        check_table_uuids("table_uuids", table_uuids, MAX_CHECKED)
        needs = [Need(NeedKind.TABLE, level, table_uuid) for table_uuid in table_uuids]
        lacking = await self._checks.find_lacking(await self._checks.load(principal), needs)
        return [need.key for need in lacking]


async def _lock_scope(tx: Transaction, database: str, table: str) -> GrantScope:
    if not table:
        if not await tx.lock_database(database):
            raise await database_not_found(tx, database)
        return GrantScope(database, 0)
    name = TableName(database, table)
    found = await tx.find_table(name)
    # It may have been dropped between finding and locking: then its head is gone.
    if found is None or not await tx.lock_heads([found.info.table_uuid]):
        raise await table_not_found(tx, name)
    return GrantScope("", found.table_id)


async def _lock_table(tx: Transaction, table_uuid: str) -> GrantScope:
    """A table, live or dropped, that cannot be dropped, restored or purged meanwhile."""
    await tx.lock_heads([table_uuid])
    return await _find_table(tx, table_uuid)


async def _find_table(tx: Transaction, table_uuid: str) -> GrantScope:
    live = await tx.find_table_by_uuid(table_uuid)
    if live is not None:
        return GrantScope("", live.table_id)
    dropped = await tx.lock_dropped(table_uuid)
    if dropped is None:
        raise await explain_gone(tx, table_uuid)
    return GrantScope("", dropped.table_id)


async def _find_scope(tx: Transaction, database: str, table: str) -> GrantScope:
    if not table:
        return GrantScope(database, 0)
    found = await tx.find_table(TableName(database, table))
    if found is None:
        raise await table_not_found(tx, TableName(database, table))
    return GrantScope("", found.table_id)


def _too_many(what: str) -> ResourceExhausted:
    return ResourceExhausted(
        f"{what} {MAX_GRANTS:,} grants, which is the limit. Grant on a database instead of its tables, give callers of "
        "one team the same name, or take some back.",
        reason="TOO_MANY_GRANTS",
        metadata={"limit": str(MAX_GRANTS)},
    )


def _check_scope_or_uuid(database: str, table: str, table_uuid: str) -> None:
    if not table_uuid:
        _check_scope(database, table)
        return
    check_uuid("table_uuid", table_uuid)
    if database or table:
        raise invalid("table_uuid", table_uuid, "Name the table by its uuid or by its name, not by both.")


def _check_scope(database: str, table: str) -> None:
    check_name("database", database)
    if table:
        check_name("table", table)


def _check_caller(name: str) -> None:
    problem = find_caller_problem(name)
    if problem is not None:
        raise invalid("principal", name, problem, "The name of the caller")
