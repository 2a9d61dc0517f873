"""Grants in memory."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.format.tables.grant import Grant, GrantLevel
from lakelog.format.tables.table import TableName

from ..store.grants import GrantScope, GrantTransaction, HeldGrant
from .catalog import MemoryCatalog
from .state import StoredGrant


class MemoryGrants(MemoryCatalog, GrantTransaction):
    """See `metastore.store.grants.GrantTransaction`."""

    async def load_held_grants(self, principal: str) -> list[HeldGrant]:
        held = []
        for (owner, scope), grant in self._state.grants.items():
            if owner != principal:
                continue
            if not scope.table_id:
                held.append(HeldGrant(scope.database, "", "", grant.level))
                continue
            table = self._table(scope.table_id)
            name = table.new.name.name if table.dropped_at_ms is None else ""
            held.append(HeldGrant(table.new.name.database, table.new.table_uuid, name, grant.level))
        return held

    async def list_grants(self, scope: GrantScope, limit: int) -> list[Grant]:
        found = [each for key, each in sorted(self._shown().items(), key=lambda item: item[0][0]) if key[1] == scope]
        return found[:limit]

    async def list_grants_of(self, principal: str) -> list[Grant]:
        found = [each for key, each in self._shown().items() if key[0] == principal]
        return sorted(found, key=lambda each: (each.database, each.table, each.table_uuid))

    async def count_grants(self, principal: str, scope: GrantScope, by: str, limit: int) -> tuple[int, int]:
        on_scope = sum(each == scope for _, each in self._state.grants)
        given = [grant.granted_by for (each, _), grant in self._state.grants.items() if each == principal]
        of_principal = given.count(by)
        return min(on_scope, limit), min(of_principal, limit)

    async def put_grant(self, principal: str, scope: GrantScope, level: GrantLevel, by: str) -> bool:
        before = self._state.grants.get((principal, scope))
        if before is None or before.level is not level:
            self._journal.put(self._state.grants, (principal, scope), StoredGrant(level, by, self._clock.now_ms()))
        return before is None

    async def find_grant(self, principal: str, scope: GrantScope) -> Grant | None:
        return self._shown().get((principal, scope))

    async def delete_grant(self, principal: str, scope: GrantScope) -> bool:
        if (principal, scope) not in self._state.grants:
            return False
        self._journal.pop(self._state.grants, (principal, scope))
        return True

    async def find_databases_of(self, table_uuids: Sequence[str]) -> dict[str, str]:
        return {
            table.new.table_uuid: "" if table.database_gone else table.new.name.database
            for table in self._state.tables
            if table.new.table_uuid in table_uuids
        }

    async def find_table_uuid(self, database: str, name: str) -> str | None:
        wanted = TableName(database, name)
        return next((table.new.table_uuid for table in self._live() if table.new.name == wanted), None)

    async def find_pipeline_table(self, name: str) -> str | None:
        found = self._state.pipelines.get(name)
        return None if found is None else found.table

    async def find_attempt_tables(self, attempt_id: str) -> tuple[str, ...] | None:
        found = self._state.attempts.get(attempt_id)
        return None if found is None else found.table_uuids

    def _shown(self) -> dict[tuple[str, GrantScope], Grant]:
        """All grants, also on dropped tables."""
        tables = {table.table_id: table for table in self._state.tables}
        found = {}
        for (principal, scope), each in self._state.grants.items():
            table = tables.get(scope.table_id)
            name = TableName(scope.database, "") if table is None else table.new.name
            found[principal, scope] = Grant(
                principal,
                name.database,
                name.name,
                each.level,
                each.granted_by,
                each.granted_at_ms,
                "" if table is None else table.new.table_uuid,
                0 if table is None else table.dropped_at_ms or 0,
            )
        return found
