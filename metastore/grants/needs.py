"""What a request needs, and whether the grants of its caller suffice. Pure; `checking` looks up what names stand for.

A right at a table is the higher one of two grants: that on its database and that on the table itself. A dropped table
is still in its database as long as that was not dropped, too: a later database of the same name has no claim on it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from lakelog.errors import PermissionDenied
from lakelog.format.tables.grant import NO_GRANT, GrantLevel

from ..store.grants import HeldGrant

_SHOWN_CHARACTERS: Final = 200


class NeedKind(enum.Enum):
    """What the key of a need is."""

    DATABASE = "database"
    TABLE = "table"
    """A table's uuid."""
    NAME = "table name"
    JOB = "job"
    ATTEMPT = "attempt"
    PIPELINE = "pipeline"
    PIPELINE_NAME = "name of a pipeline"
    """As a pipeline; as long as none of this name has reported, as any table."""
    DROPPED = "dropped table"
    ANYWHERE = "any table"
    NEVER = "never"
    """Grants do not allow it."""


@dataclass(frozen=True)
class Need:
    """A level that a caller needs at what its request names.

    Args:
        kind: What the key is.
        level: The level.
        key: The name, uuid or number, as the request gives it; of a table's name its database.
        table: Of the name of a table, dropped or not, the table.
        uuid: Of a dropped table its uuid; empty: all of that name.
        into: Of a dropped table the database that it comes back into.
    """

    kind: NeedKind
    level: GrantLevel
    key: str = ""
    table: str = ""
    uuid: str = ""
    into: str = ""

    @property
    def shown(self) -> str:
        """What it is about, in the words of the caller."""
        match self.kind:
            case NeedKind.DATABASE:
                return f"database {self.key[:_SHOWN_CHARACTERS]!r}"
            case NeedKind.NAME | NeedKind.DROPPED:
                return f"table {f'{self.key}.{self.table}'[:_SHOWN_CHARACTERS]!r}"
            case NeedKind.TABLE | NeedKind.JOB | NeedKind.ATTEMPT | NeedKind.PIPELINE | NeedKind.PIPELINE_NAME:
                return f"{self.kind.value} {self.key[:_SHOWN_CHARACTERS]!r}"
            case NeedKind.ANYWHERE:
                return "any table"
            case NeedKind.NEVER:
                return self.key[:_SHOWN_CHARACTERS]


@dataclass(frozen=True)
class HeldGrants:
    """All grants of a caller."""

    grants: tuple[HeldGrant, ...] = ()
    databases: dict[str, int] = field(init=False, compare=False)
    tables: dict[str, int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        databases = {each.database: int(each.level) for each in self.grants if not each.table_uuid}
        tables = {each.table_uuid: int(each.level) for each in self.grants if each.table_uuid}
        object.__setattr__(self, "databases", databases)
        object.__setattr__(self, "tables", tables)

    @cached_property
    def names(self) -> frozenset[tuple[str, str]]:
        """The databases and names of the live tables on which there is a grant."""
        return frozenset((each.database, each.name) for each in self.grants if each.name)

    @cached_property
    def highest(self) -> int:
        """The highest level of all; 0: there is no grant."""
        return max((int(each.level) for each in self.grants), default=0)

    def level_at(self, database: str, table_uuid: str = "") -> int:
        """The level at a table, or at a database; 0: none.

        Args:
            database: The database; empty: it is gone, or not known.
            table_uuid: The table; empty: the database itself.
        """
        return max(self.databases.get(database, 0), self.tables.get(table_uuid, 0) if table_uuid else 0)

    def may_see(self, database: str, name: str) -> bool:
        """Whether the caller may read a live table of this name."""
        return database in self.databases or (database, name) in self.names

    def may_see_in(self, database: str) -> bool:
        """Whether the caller may read a database, or a live table in it."""
        return database in self.databases or any(each.name and each.database == database for each in self.grants)


def no_grant(caller: str, method: str, lacking: Need, role: str) -> PermissionDenied:
    """The refusal of a caller whose grants do not suffice.

    It is one and the same whether or not the thing exists, and whatever lower level the caller has: it only says what
    the caller itself has sent.

    Args:
        caller: The name of the caller.
        method: The short name of the RPC.
        lacking: What the caller lacks.
        role: The role that needs no grant for it.
    """
    level = lacking.level.name.lower()
    metadata = {"caller": caller, "needed": level, "role": role, "method": method}
    if lacking.kind is NeedKind.NEVER:
        return PermissionDenied(
            f"{caller} has not the role {role}, which {method} needs: it {lacking.shown}. Name tables on which "
            f"{caller} has a grant, or ask an operator for a token with that role.",
            reason=NO_GRANT,
            metadata=metadata,
        )
    return PermissionDenied(
        f"{caller} has neither the role {role} nor a grant of {level} at {lacking.shown}, and {method} needs one of "
        "them. If it exists, its owner, the owner of its database or an admin can grant it: "
        f"lakelog grant {level} <database or table> --to {caller}.",
        reason=NO_GRANT,
        metadata=metadata | {"scope": lacking.shown},
    )
