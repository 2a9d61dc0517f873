"""Callers and grants: what a caller may do with one database or table, beyond what its role allows everywhere.

    reader < writer < owner        each level may do all that the ones below it may
    database  >  its tables        a grant on a database counts for each table in it, also for later ones

A caller's right at a table is the highest of three: its role, its grant on the database, its grant on the table.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

NO_GRANT: Final = "NO_GRANT"
"""The reason of the refusal for a caller whose right does not suffice; also if the table does not exist."""

_CALLER: Final = re.compile(r"[A-Za-z0-9_.@:|/+=~-]{1,256}")


class GrantLevel(enum.IntEnum):
    """What a grant allows."""

    READER = 1
    """Read rows, plans, snapshots and options, and watch."""
    WRITER = 2
    """Change rows: write, commit, tag, compact, do jobs."""
    OWNER = 3
    """Alter, drop and restore it, and grant on it; in a database also create tables."""


@dataclass(frozen=True)
class Grant:
    """A level that a caller has on a database, or on one table.

    Args:
        principal: The name of the caller, as its token or certificate says it.
        database: The database.
        table: The table's name; empty: the database with all its tables.
        level: What the caller may do there.
        granted_by: The caller that granted it; empty: the metastore identified no callers then.
        granted_at_ms: When the level was granted, in milliseconds since the epoch by the database's clock.
        table_uuid: The table's uuid; empty: it is on a database.
        dropped_at_ms: When the table was dropped, as above; 0: it was not.
    """

    principal: str
    database: str
    table: str
    level: GrantLevel
    granted_by: str
    granted_at_ms: int
    table_uuid: str = ""
    dropped_at_ms: int = 0

    @property
    def scope(self) -> str:
        """The database or table, as people write it."""
        return name_scope(self.database, self.table)


@dataclass(frozen=True)
class Granted:
    """The outcome of granting.

    Args:
        grant: The grant as it is now.
        has_no_effect: The metastore identifies no callers, so each may do everything, with or without grants.
    """

    grant: Grant
    has_no_effect: bool = False


def name_scope(database: str, table: str) -> str:
    """A database or a table, as people write it: `shop`, `shop.orders`. Pure."""
    return f"{database}.{table}" if table else database


def find_caller_problem(name: str) -> str | None:
    """Says what is wrong with the name of a caller, and what to write instead; None: it is valid. Pure."""
    if _CALLER.fullmatch(name):
        return None
    return "Give the name of a token or certificate: 1 to 256 of A-Z a-z 0-9 _ . @ : | / + = ~ -."


class CallerRole(enum.Enum):
    """What a caller may do everywhere."""

    USER = "user"
    """What grants allow, and nothing else."""
    READER = "reader"
    """Read everything."""
    WRITER = "writer"
    """Change rows of all tables."""
    ADMIN = "admin"
    """Everything."""

    @property
    def level(self) -> int:
        """The level of grants at every table that it is worth; 0: none."""
        return list(CallerRole).index(self)


class SignIn(enum.Enum):
    """How a caller was identified."""

    NONE = "none"
    """Not at all: the metastore identifies no callers."""
    TOKEN = "token"
    """By a token of the metastore's token file."""
    SIGNED_TOKEN = "signed token"
    """By a token that an issuer has signed."""
    CERTIFICATE = "certificate"
    """By a client certificate."""


@dataclass(frozen=True)
class Identity:
    """A caller.

    Args:
        name: The name that grants are made to; empty: the metastore identifies no callers.
        role: What it may do everywhere.
        sign_in: How it was identified.
        until_ms: When its token ends by itself, in milliseconds since the epoch; 0: it does not.
        levels: What it may do at the tables that were asked for, by uuid; a table where it may do nothing is not there.
    """

    name: str
    role: CallerRole
    sign_in: SignIn
    until_ms: int = 0
    levels: Mapping[str, GrantLevel] = field(default_factory=dict)

    def may(self, level: GrantLevel, table_uuid: str) -> bool:
        """Whether it has a level at a table that was asked for. Pure."""
        return self.levels.get(table_uuid, 0) >= level
