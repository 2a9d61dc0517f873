"""CREATE TABLE ... AS SELECT: a query gives the new table its columns, then its rows."""

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
    """Makes a table with a query's columns and writes the query's rows in one commit.

    The table is made after the query has returned its first rows, so most mistakes in a query leave no table. It has no
    rows until they are committed. If the query or the write fails, the table is dropped.

    Returns:
        The result of the write; None: a table of this name exists, and nothing was done.

    Raises:
        AlreadyExists: A table of this name exists, and the statement has no IF NOT EXISTS.
        InvalidArgument: The query cannot run, or a table cannot have its columns.
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
        # If the outcome of the commit is unknown, its rows disappear with the table.
        with contextlib.suppress(LakelogError):
            if catalog.table(name).uuid == table.uuid:
                catalog.drop_table(name)
        raise
    return result


def _find_columns(schema: pa.Schema, names: Sequence[str]) -> tuple[str, ...]:
    """The query's names for some columns, in the query's upper and lower case."""
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
