"""Who a caller is, as the metastore knows it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog.format.tables.grant import GrantLevel


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
