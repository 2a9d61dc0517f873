"""The forms of a privilege: which role an RPC needs, and where its request names what grants are looked for on.

A rule says where a name stands in the request and which level is needed there. Names of fields are paths from the
request on: `changes.table_uuid` stands for the field of each change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakelog.format.tables.grant import GrantLevel
from lakelog.serving.access import Role

READER: Final = GrantLevel.READER
WRITER: Final = GrantLevel.WRITER
OWNER: Final = GrantLevel.OWNER


@dataclass(frozen=True)
class TableUuids:
    """Tables by their uuids.

    Args:
        field: Where they stand; one or several.
        level: What the caller needs at each.
        may_be_empty: Whether a request without them is allowed, because it names other things.
    """

    field: str
    level: GrantLevel
    may_be_empty: bool = False

    @property
    def fields(self) -> frozenset[str]:
        """The fields that it looks at."""
        return frozenset({self.field})


@dataclass(frozen=True)
class ScopeName:
    """A database or a table by its name.

    Args:
        database: Where the name of the database stands.
        table: Where the name of the table stands; empty: the rule is about the database. A request in which it is empty
            is about the database, too.
        level: What the caller needs there.
    """

    database: str
    table: str
    level: GrantLevel

    @property
    def fields(self) -> frozenset[str]:
        """The fields that it looks at."""
        return frozenset({self.database, self.table} - {""})


@dataclass(frozen=True)
class _OfField:
    """What one field of a request names, and the level that is needed there."""

    field: str
    level: GrantLevel

    @property
    def fields(self) -> frozenset[str]:
        """The field that it looks at."""
        return frozenset({self.field})


@dataclass(frozen=True)
class FullTableName(_OfField):
    """A table by its full name in one field, as `shop.orders`."""


@dataclass(frozen=True)
class OfJob(_OfField):
    """The table of a job.

    Args:
        field: Where the number of the job stands.
        level: What the caller needs at its table.
        may_be_empty: Whether a request without a job is allowed, because it names other things.
    """

    may_be_empty: bool = False


@dataclass(frozen=True)
class OfAttempt(_OfField):
    """All tables of an attempt."""


@dataclass(frozen=True)
class OfPipeline(_OfField):
    """The table of a pipeline that has reported, by the pipeline's name."""


@dataclass(frozen=True)
class OfPipelineName(_OfField):
    """As `OfPipeline`; of a name that no pipeline has reported under, the level at any table suffices."""


@dataclass(frozen=True)
class OfLease(_OfField):
    """A lease, by its name.

    `publisher/<uuid>` is about that table, and `pipeline/<name>` about the one that the pipeline reports for. It has
    none before it reports: then the level at any table suffices. Grants allow no other lease.

    Args:
        field: Where the name of the lease stands; one or several.
        level: What the caller needs.
    """


@dataclass(frozen=True)
class OfDropped:
    """A dropped table, by its name and uuid or, without a uuid, by its name: then at all dropped tables of that name.

    A table that comes back into another database, or under another name, needs the level there as well, as a new one
    does.

    Args:
        name: Where its name stands.
        table_uuid: Where its uuid stands.
        new_name: Where its new name stands.
        level: What the caller needs at it.
    """

    name: str
    table_uuid: str
    new_name: str
    level: GrantLevel

    @property
    def fields(self) -> frozenset[str]:
        """The fields that it looks at."""
        return frozenset({self.name, self.table_uuid, self.new_name})


@dataclass(frozen=True)
class Anywhere:
    """The level at any database or table: for names that belong to the caller and not to a table."""

    level: GrantLevel

    @property
    def fields(self) -> frozenset[str]:
        """It looks at no field."""
        return frozenset()


@dataclass(frozen=True)
class OfCaller:
    """What is about the caller itself: any identified caller may request it, for its own name or without one.

    If the request names a database, the level is needed there.

    Args:
        principal: Where the name of a caller stands.
        database: Where the name of a database stands.
        table: Where the name of a table stands.
        table_uuid: Where the uuid of a table stands.
        level: What the caller needs there.
    """

    principal: str
    database: str
    table: str
    table_uuid: str
    level: GrantLevel

    @property
    def fields(self) -> frozenset[str]:
        """The fields that it looks at."""
        return frozenset({self.principal, self.database, self.table, self.table_uuid})


@dataclass(frozen=True)
class OfOwnGrant:
    """A database or a table by its name. For a grant of the caller itself it suffices that the caller may read there.

    Args:
        principal: Where the name of a caller stands.
        database: Where the name of the database stands.
        table: Where the name of the table stands. A request in which it is empty is about the database.
        table_uuid: Where the uuid of a table stands, in place of its name.
        level: What the caller needs there for grants of others.
    """

    principal: str
    database: str
    table: str
    table_uuid: str
    level: GrantLevel

    @property
    def fields(self) -> frozenset[str]:
        """The fields that it looks at."""
        return frozenset({self.principal, self.database, self.table, self.table_uuid})


@dataclass(frozen=True)
class ShownUuids:
    """Of a list in the answer, a caller sees those entries whose table it may read.

    Args:
        items: The list.
        uuid: The field of an entry with the uuid of its table.
    """

    items: str
    uuid: str


@dataclass(frozen=True)
class ShownByUseCase:
    """As `ShownUuids`, but the use case leaves the others out: a page is full without them.

    Args:
        items: The list.
    """

    items: str


@dataclass(frozen=True)
class ShownNames:
    """As `ShownUuids`, by the full name of the table in a field of the entry."""

    items: str
    name: str


@dataclass(frozen=True)
class ShownTables:
    """The names of a database's tables: all for a caller that may read the database, else those that it may read.

    Args:
        database: The field of the request with the database.
        items: The list of the answer.
    """

    database: str
    items: str


@dataclass(frozen=True)
class ShownDatabases:
    """Databases: those that a caller may read, and of others that have a table that it may read, only what it sees.

    Args:
        items: The list of the answer.
    """

    items: str


@dataclass(frozen=True)
class ShownOverview:
    """The overview: sums over the tables that a caller may read, and of what is named only what is about them."""


Rule = (
    TableUuids
    | ScopeName
    | FullTableName
    | OfJob
    | OfAttempt
    | OfPipeline
    | OfPipelineName
    | OfLease
    | OfDropped
    | Anywhere
    | OfCaller
    | OfOwnGrant
)
Shown = ShownUuids | ShownByUseCase | ShownNames | ShownTables | ShownDatabases | ShownOverview


@dataclass(frozen=True)
class Privilege:
    """What an RPC needs.

    Args:
        role: A caller with this role or a higher one may call it for everything; None: it is open to all, also to
            callers that no one knows.
        rules: What a caller with a lower role needs: all of these. None of them and no `shown`: grants do not help.
        shown: What such a caller sees of a list in the answer.
        has_effect: Whether it changes something.
    """

    role: Role | None
    rules: tuple[Rule, ...] = ()
    shown: Shown | None = None
    has_effect: bool = False

    @property
    def takes_grants(self) -> bool:
        """Whether grants can allow it."""
        return bool(self.rules) or self.shown is not None

    @property
    def fields(self) -> frozenset[str]:
        """The fields of the request that say what grants are looked for on."""
        looked_at = [rule.fields for rule in self.rules]
        if isinstance(self.shown, ShownTables):
            looked_at.append(frozenset({self.shown.database}))
        return frozenset().union(*looked_at)
