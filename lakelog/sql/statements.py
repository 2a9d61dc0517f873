"""What SQL statements say, as values: made by `parser`, carried out by `session`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lakelog.format.filter.syntax import Syntax
from lakelog.format.filter.tokens import Source


@dataclass(frozen=True)
class Name:
    """A table's name; without a database it is the session's."""

    database: str | None
    table: str

    def __str__(self) -> str:
        return self.table if self.database is None else f"{self.database}.{self.table}"


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
    """SHOW DATABASES; None: whatever their names are."""

    pattern: str | None = None


@dataclass(frozen=True)
class ShowTables:
    """SHOW TABLES; None: of the session's database, whatever their names are."""

    database: str | None = None
    pattern: str | None = None


@dataclass(frozen=True)
class UseDatabase:
    """USE: names without a database are in this one from now on."""

    name: str


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE.

    Args:
        name: Of the new table.
        schema: Its columns with canonical types; comments in the fields' metadata under `comment`.
        primary_key: Names of the key's columns in order.
        partition_by: Names of the partition columns in order.
        options: By key.
        comment: What it is for.
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
        name: Of the new table.
        query: What gives it its columns and rows.
        primary_key: Names of the key's columns in order.
        partition_by: Names of the partition columns in order.
        options: By key.
        comment: What it is for.
        if_not_exists: A table of this name is no error; nothing is read or written then.
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
class DescribeTable:
    """DESCRIBE."""

    name: Name


@dataclass(frozen=True)
class ShowCreateTable:
    """SHOW CREATE TABLE."""

    name: Name


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
        rows: What is written.
        columns: Which columns the rows have, in their order; empty: all.
        overwrite: Replace what is there.
        partition: Values of partition columns, as they were written, which all rows get; with `overwrite` the partition
            that is replaced.
        source: The text that `partition` stands in.
        options: Of the write, from a hint behind the table's name.
    """

    name: Name
    rows: Values | Query
    columns: tuple[str, ...] = ()
    overwrite: bool = False
    partition: tuple[tuple[str, Syntax], ...] = ()
    source: Source | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Explain:
    """EXPLAIN of a statement that reads or writes rows."""

    statement: Query | Insert | CreateTableAs


@dataclass(frozen=True)
class CallArgument:
    """What a procedure is given.

    Args:
        name: Of the parameter; empty: it is known by its place.
        value: As it was written.
        start: Its place in the text.
    """

    name: str
    value: Syntax
    start: int


@dataclass(frozen=True)
class Call:
    """CALL sys.name(...).

    Args:
        source: The text.
        name: Of the procedure.
        start: Its place in the text.
        arguments: In their order.
    """

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
    | DescribeTable
    | ShowCreateTable
    | Insert
    | Explain
    | Call
    | Query
)
