"""Which statements the query page runs: those that only read tables. Pure."""

from __future__ import annotations

from typing import Final

from lakelog.errors import InvalidArgument
from lakelog.sql.parser import parse_statement
from lakelog.sql.query.query import plan_select
from lakelog.sql.statements import (
    DescribeTable,
    Explain,
    Query,
    ShowCreateTable,
    ShowDatabases,
    ShowGrants,
    ShowTables,
    Statement,
)

LONGEST: Final = 8000
"""Characters of a statement: it is part of the page's address."""

ReadingStatement = Query | Explain | ShowDatabases | ShowTables | ShowCreateTable | ShowGrants | DescribeTable


def read_statement(text: str) -> ReadingStatement:
    """Reads a statement that only reads tables.

    Raises:
        InvalidArgument: It cannot be read, does more than read, or reads files.
    """
    if len(text) > LONGEST:
        raise InvalidArgument(
            f"The statement has {len(text):,} characters; this page takes {LONGEST:,}. Run it by `lakelog sql`.",
            metadata={"field": "sql"},
        )
    statement = parse_statement(text)
    if not isinstance(statement, ReadingStatement):
        raise _refuse(f"{_name(statement)} changes something, and this page only reads.")
    query = statement.statement if isinstance(statement, Explain) else statement
    if isinstance(statement, Explain) and not isinstance(query, Query):
        raise _refuse(f"EXPLAIN {_name(query)} plans a change, and this page only reads.")
    if isinstance(query, Query):
        files = plan_select(query.sql).files
        if files:
            raise _refuse(f"{files[0].function} reads files where the console runs, and this page only reads tables.")
    return statement


def _name(statement: Statement) -> str:
    """How a statement begins, for people."""
    name = type(statement).__name__
    return "".join(f" {each}" if each.isupper() else each for each in name).strip().upper()


def _refuse(why: str) -> InvalidArgument:
    return InvalidArgument(
        f"{why} It runs SELECT, SHOW, DESCRIBE and EXPLAIN SELECT; use `lakelog sql` for others.",
        reason="ONLY_READS",
        metadata={"field": "sql"},
    )
