"""What becomes of each RPC for each kind of caller, by the table of privileges: for the documentation and its test."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from lakelog.format.tables.grant import GrantLevel
from lakelog.serving.access import Role

from .rules import OfCaller, Privilege, Rule, ScopeName, Shown, ShownTables


class Outcome(enum.Enum):
    """What becomes of a call."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    FILTERED = "filtered"
    """It is answered, with what the caller may see."""


@dataclass(frozen=True)
class CallerKind:
    """A caller, seen from one table and its database.

    Args:
        name: How it is called in the documentation.
        role: Its role.
        at_table: Its grant on the table; 0: none.
        at_database: Its grant on the database of the table; 0: none.
    """

    name: str
    role: Role = Role.USER
    at_table: int = 0
    at_database: int = 0


CALLER_KINDS: Final = (
    CallerKind("no grant"),
    *(CallerKind(f"{level.name.lower()} of the table", at_table=level) for level in GrantLevel),
    *(CallerKind(f"{level.name.lower()} of the database", at_database=level) for level in GrantLevel),
    *(CallerKind(f"role {role.name.lower()}", role) for role in Role if role is not Role.USER),
)
"""The kinds of callers that the documentation shows."""


def outcome_of(privilege: Privilege, caller: CallerKind) -> Outcome:
    """What becomes of a call that is about one table, or about its database. Pure.

    Args:
        privilege: What the RPC needs.
        caller: The caller.
    """
    if privilege.role is None or caller.role >= privilege.role:
        return Outcome.ALLOWED
    if privilege.shown is not None:
        # Tables that it names narrow the list, and it need not name any.
        return _shown_to(privilege.shown, caller)
    if not privilege.takes_grants or not all(_is_met(rule, caller) for rule in privilege.rules):
        return Outcome.REFUSED
    of_caller = [rule for rule in privilege.rules if isinstance(rule, OfCaller)]
    return Outcome.FILTERED if any(_level(rule, caller) < rule.level for rule in of_caller) else Outcome.ALLOWED


def _is_met(rule: Rule, caller: CallerKind) -> bool:
    if isinstance(rule, OfCaller):
        # About itself each caller may ask.
        return True
    return _level(rule, caller) >= rule.level


def _level(rule: Rule, caller: CallerKind) -> int:
    is_about_database = isinstance(rule, ScopeName) and not rule.table
    return caller.at_database if is_about_database else max(caller.at_table, caller.at_database)


def _shown_to(shown: Shown, caller: CallerKind) -> Outcome:
    if isinstance(shown, ShownTables):
        if not caller.at_table and not caller.at_database:
            return Outcome.REFUSED
        return Outcome.ALLOWED if caller.at_database else Outcome.FILTERED
    return Outcome.FILTERED
