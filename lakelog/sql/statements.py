"""SQL statements as values: made by `parser`, executed by `session`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lakelog.format.filter.syntax import Syntax
from lakelog.format.filter.tokens import Source
from lakelog.format.types.column_changes import ColumnChange
from lakelog.writes.row_changes.clauses import Assignments, Clause


@dataclass(frozen=True)
class Name:
    """A table's name; without a database, the session's current one is meant, and without a catalog the session's."""

    database: str | None
    table: str
    catalog: str | None = None

    def __str__(self) -> str:
        return ".".join(part for part in (self.catalog, self.database, self.table) if part is not None)


@dataclass(frozen=True)
class CreateDatabase:
    """CREATE DATABASE."""

    name: str
    if_not_exists: bool = False
    comment: str = ""


@dataclass(frozen=True)
class DropDatabase:
    """DROP DATABASE."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class ShowDatabases:
    """SHOW DATABASES; None: without a pattern."""

    pattern: str | None = None


@dataclass(frozen=True)
class ShowTables:
    """SHOW TABLES; None: of the session's database, or without a pattern."""

    database: str | None = None
    pattern: str | None = None


@dataclass(frozen=True)
class UseDatabase:
    """USE: from now on, names without a database belong to this one."""

    name: str


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE.

    Args:
        name: The new table's name.
        schema: Its columns with canonical types; comments in the fields' metadata under `comment`.
        primary_key: Names of the key's columns in order.
        partition_by: Names of the partition columns in order.
        options: The options by key.
        comment: The table's comment.
        if_not_exists: A table of this name is no error.
    """

    name: Name
    schema: pa.Schema
    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateTableAs:
    """CREATE TABLE ... AS SELECT.

    Args:
        name: The new table's name.
        query: The query for its columns and rows.
        primary_key: Names of the key's columns in order.
        partition_by: Names of the partition columns in order.
        options: The options by key.
        comment: The table's comment.
        if_not_exists: A table of this name is no error; then nothing is read or written.
    """

    name: Name
    query: Query
    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropTable:
    """DROP TABLE."""

    name: Name
    if_exists: bool = False


@dataclass(frozen=True)
class AlterOptions:
    """ALTER TABLE ... SET (...) or RESET (...)."""

    name: Name
    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()


@dataclass(frozen=True)
class AlterColumns:
    """ALTER TABLE ... ADD, DROP, RENAME or ALTER COLUMN, or COMMENT ON TABLE.

    Args:
        name: The table.
        changes: In their order; the default of a `SetDefault` is as it was written.
        comment: The table's new comment; None: it stays.
        source: The text that contains the defaults.
    """

    name: Name
    changes: tuple[ColumnChange, ...] = ()
    comment: str | None = None
    source: Source | None = None


@dataclass(frozen=True)
class DescribeTable:
    """DESCRIBE."""

    name: Name


@dataclass(frozen=True)
class ShowCreateTable:
    """SHOW CREATE TABLE."""

    name: Name


@dataclass(frozen=True)
class GrantTo:
    """GRANT.

    Args:
        level: `reader`, `writer` or `owner`.
        scope: A table or, as a text, a database.
        caller: The caller that gets it.
    """

    level: str
    scope: Name | str
    caller: str


@dataclass(frozen=True)
class RevokeFrom:
    """REVOKE; the scope as in `GrantTo`."""

    scope: Name | str
    caller: str


@dataclass(frozen=True)
class ShowGrants:
    """SHOW GRANTS.

    Args:
        scope: As in `GrantTo`; None: all that the caller has.
        caller: Only its grants; None without a scope: those of the calling one.
    """

    scope: Name | str | None = None
    caller: str | None = None


@dataclass(frozen=True)
class Values:
    """The rows of VALUES as they were written; their types come from the table (`values.to_rows`)."""

    source: Source
    rows: tuple[tuple[Syntax, ...], ...]


@dataclass(frozen=True)
class Query:
    """A SELECT, as text."""

    sql: str


@dataclass(frozen=True)
class Insert:
    """INSERT INTO or INSERT OVERWRITE.

    Args:
        name: The table.
        rows: The new rows.
        columns: The columns of the rows, in their order; empty: all.
        overwrite: Replace existing rows.
        partition: Values of partition columns, as they were written, for all rows; with `overwrite`, the partition to
            replace.
        source: The text that contains `partition`.
        options: The options of the write, from a hint after the table's name.
    """

    name: Name
    rows: Values | Query
    columns: tuple[str, ...] = ()
    overwrite: bool = False
    partition: tuple[tuple[str, Syntax], ...] = ()
    source: Source | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ChangedTable:
    """The table that UPDATE, DELETE and MERGE change.

    Args:
        name: Its name.
        alias: Its name in expressions; None: that of the table.
        options: The options of the write, from a hint after its name.
    """

    name: Name
    alias: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Delete:
    """DELETE FROM; without a condition all rows."""

    table: ChangedTable
    where: str | None = None


@dataclass(frozen=True)
class Update:
    """UPDATE; without a condition all rows."""

    table: ChangedTable
    set: Assignments
    where: str | None = None


@dataclass(frozen=True)
class Merge:
    """MERGE INTO.

    Args:
        table: The table.
        source: The query for the rows that it is compared with.
        source_names: Their names in expressions.
        on: Which rows belong together.
        clauses: What happens to them, in order.
    """

    table: ChangedTable
    source: Query
    source_names: tuple[str, ...]
    on: str
    clauses: tuple[Clause, ...]


@dataclass(frozen=True)
class Truncate:
    """TRUNCATE TABLE."""

    name: Name


@dataclass(frozen=True)
class Explain:
    """EXPLAIN of a statement that reads or writes rows."""

    statement: Query | Insert | CreateTableAs | Delete | Update | Merge


@dataclass(frozen=True)
class CallArgument:
    """An argument of a procedure.

    Args:
        name: The parameter's name; empty: the place decides.
        value: The value as it was written.
        start: Its place in the text.
    """

    name: str
    value: Syntax
    start: int


@dataclass(frozen=True)
class Call:
    """CALL sys.name(...)."""

    source: Source
    name: str
    start: int
    arguments: tuple[CallArgument, ...] = ()


Statement = (
    CreateDatabase
    | DropDatabase
    | ShowDatabases
    | ShowTables
    | UseDatabase
    | CreateTable
    | CreateTableAs
    | DropTable
    | AlterOptions
    | AlterColumns
    | DescribeTable
    | ShowCreateTable
    | GrantTo
    | RevokeFrom
    | ShowGrants
    | Insert
    | Delete
    | Update
    | Merge
    | Truncate
    | Explain
    | Call
    | Query
)
