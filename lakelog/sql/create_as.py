"""CREATE TABLE ... AS SELECT: the query gives the table its columns, then its rows."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakelog.errors import AlreadyExists, InvalidArgument, LakelogError, NotFound
from lakelog.results import WriteResult
from lakelog.sql.named_tables import NamedTables
from lakelog.sql.statements import CreateTableAs


def create_table_as(names: NamedTables, name: str, statement: CreateTableAs) -> WriteResult | None:
    """Makes a table of a query's columns and writes its rows in one commit.

    The table is made when the query has given its first rows, so most of what can be wrong with a query leaves none. It
    is there without rows until they are committed. Where the query or the write fails, it is dropped.

    Args:
        names: Where the tables are.
        name: The table's full name.
        statement: What it shall be.

    Returns:
        What became of the write; None: there is such a table, and nothing was done.

    Raises:
        AlreadyExists: There is a table of this name, and IF NOT EXISTS was not said.
        InvalidArgument: The query cannot be run, or its columns are none of a table.
        LakelogError: The write failed; there is no table.
    """
    from lakelog.sql.query.duckdb_query import run_query

    catalog = names.catalog
    with contextlib.suppress(NotFound):
        catalog.table(name)
        if statement.if_not_exists:
            return None
        raise AlreadyExists(
            f"Table {name} exists already. Take another name, or INSERT INTO {name}.", reason="TABLE_EXISTS"
        )
    rows = run_query(names, statement.query.sql)
    primary_key, partition_by = (
        _find_columns(rows.schema, columns) for columns in (statement.primary_key, statement.partition_by)
    )
    schema = _to_table_schema(rows.schema, primary_key)
    first = next(rows, None)
    try:
        table = catalog.create_table(
            name,
            schema,
            primary_key=primary_key,
            partition_by=partition_by,
            options=statement.options,
            comment=statement.comment,
        )
    except AlreadyExists:
        if statement.if_not_exists:
            return None
        raise

    def batches() -> Iterator[pa.RecordBatch]:
        if first is not None:
            yield first
            yield from rows

    try:
        result = table.upsert(batches()) if primary_key else table.append(batches())
    except BaseException:
        # Of a commit whose outcome is not known the rows go with the table.
        with contextlib.suppress(LakelogError):
            if catalog.table(name).uuid == table.uuid:
                catalog.drop_table(name)
        raise
    return result


def _find_columns(schema: pa.Schema, names: Sequence[str]) -> tuple[str, ...]:
    """The query's names of some columns, however they were written."""
    by_name = {name.casefold(): name for name in schema.names}
    unknown = next((name for name in names if name.casefold() not in by_name), None)
    if unknown is not None:
        raise InvalidArgument(
            f"The query has no column '{unknown}'; its columns are {', '.join(schema.names[:50])}.",
            reason="UNKNOWN_COLUMN",
            metadata={"column": unknown},
        )
    return tuple(by_name[name.casefold()] for name in names)


def _to_table_schema(schema: pa.Schema, primary_key: Sequence[str]) -> pa.Schema:
    counts = Counter(name.casefold() for name in schema.names)
    repeated = next((name for name in schema.names if counts[name.casefold()] > 1), None)
    if repeated is not None:
        raise InvalidArgument(
            f"The query has the column '{repeated}' more than once. Name each once, by AS.",
            reason="SCHEMA_MISMATCH",
            metadata={"column": repeated},
        )
    return pa.schema([pa.field(field.name, field.type, field.name not in primary_key) for field in schema])
