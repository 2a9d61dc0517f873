"""Who a caller is, and what it may do at some tables: so that a program need not try."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.format.tables.grant import CallerRole, GrantLevel, Identity, SignIn
from lakelog.serving.access import ANYONE, Caller

from ..store.validation import check_table_uuids
from .checking import GrantChecks
from .grants import MAX_CHECKED
from .needs import Need, NeedKind


class Identities:
    """The use case of identities.

    Args:
        checks: Finds out what the grants of a caller allow.
    """

    def __init__(self, checks: GrantChecks) -> None:
        self._checks = checks

    async def who_am_i(self, table_uuids: Sequence[str] = (), *, caller: Caller = ANYONE) -> Identity:
        """As the protocol says, of the caller of the call."""
        if table_uuids:
            check_table_uuids("table_uuids", table_uuids, MAX_CHECKED)
        role = CallerRole(caller.role.name.lower())
        is_known = caller.sign_in is not SignIn.NONE
        levels = {uuid: GrantLevel(role.level) for uuid in table_uuids if role.level}
        if table_uuids and is_known and role is not CallerRole.ADMIN:
            levels |= await self._find_granted(caller.name, table_uuids, role.level)
        return Identity(
            caller.name if is_known else "",
            role,
            caller.sign_in,
            round((caller.until_s or 0) * 1000),
            levels,
        )

    async def _find_granted(self, caller: str, table_uuids: Sequence[str], above: int) -> dict[str, GrantLevel]:
        """The levels that grants add at some tables, as far as they are above one."""
        held = await self._checks.load(caller)
        levels: dict[str, GrantLevel] = {}
        for level in GrantLevel:
            if above < level <= held.highest:
                needs = [Need(NeedKind.TABLE, level, uuid) for uuid in table_uuids]
                lacking = {need.key for need in await self._checks.find_lacking(held, needs)}
                levels |= {uuid: level for uuid in table_uuids if uuid not in lacking}
        return levels
