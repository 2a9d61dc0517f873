"""Executes statements: each becomes calls of the SDK; DuckDB runs a SELECT over scans."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakelog.annotations import Parameters
from lakelog.arguments import check_text
from lakelog.errors import InvalidArgument
from lakelog.format.filter.parameters import bind_parameters
from lakelog.format.types.defaults import write_default
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.frames import to_pandas, to_polars
from lakelog.frames.html_table import to_html
from lakelog.options.declared.reads_and_writes import DYNAMIC_PARTITION_OVERWRITE
from lakelog.sdk.grants import Grants
from lakelog.sql.alter_columns import resolve_defaults
from lakelog.sql.create_as import create_table_as
from lakelog.sql.create_table import to_create_sql
from lakelog.sql.named_tables import NamedTables
from lakelog.sql.parser import parse_statement
from lakelog.sql.procedures import run_call
from lakelog.sql.row_changes.running import (
    describe_counts,
    read_write_options,
    run_delete,
    run_merge,
    run_truncate,
    run_update,
)
from lakelog.sql.statements import (
    AlterColumns,
    AlterOptions,
    Call,
    CreateDatabase,
    CreateTable,
    CreateTableAs,
    Delete,
    DescribeTable,
    DropDatabase,
    DropTable,
    Explain,
    GrantTo,
    Insert,
    Merge,
    Name,
    Query,
    RevokeFrom,
    ShowCreateTable,
    ShowDatabases,
    ShowGrants,
    ShowTables,
    Statement,
    Truncate,
    Update,
    UseDatabase,
    Values,
)
from lakelog.sql.values import to_rows, to_value
from lakelog.sql.word_reader import to_source
from lakelog.system_tables.metadata.definition import describe_columns
from lakelog.writes.commit_options import CommitOptions, Guards, read_guards
from lakelog.writes.ingest import to_batches
from lakelog.writes.overwrite import to_static_partition
from lakelog.writes.row_changes.clauses import RowCounts

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from lakelog.sdk.tables.table import Table


_MAX_SHOWN: Final = 20


@dataclass(frozen=True, repr=False)
class SqlResult:
    """The result of a statement.

    Args:
        message: What was done, in one sentence; empty for a statement that returns rows.
        rows: The rows of a SELECT, SHOW, DESCRIBE or CALL; None for a statement that returns none.
        table: The full name of the table that a statement wrote to, with the catalog if that is not the session's; None
            for all else.
        snapshot_id: The snapshot that it made; None for all else, and if there were no rows.
        changed: How many rows a DELETE, UPDATE, MERGE or TRUNCATE has updated, deleted and inserted; None for all else.
    """

    message: str = ""
    rows: pa.Table | None = None
    table: str | None = None
    snapshot_id: int | None = None
    changed: RowCounts | None = None

    def to_arrow(self) -> pa.Table:
        """The rows as a pyarrow table.

        Raises:
            InvalidArgument: The statement returned no rows.
        """
        if self.rows is None:
            raise InvalidArgument(f"The statement returned no rows: {self.message} Only those of a query can be read.")
        return self.rows

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas data frame; needs pandas. Raises as `to_arrow`."""
        return to_pandas(self.to_arrow)

    def to_polars(self) -> pl.DataFrame:
        """The rows as a polars data frame; needs polars. Raises as `to_arrow`."""
        return to_polars(self.to_arrow)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, so that any consumer of one takes the result, also a write."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """The first rows, for notebooks."""
        return to_html(pa.table({}) if self.rows is None else self.rows, repr(self))

    def __repr__(self) -> str:
        if self.rows is None:
            return f"<sql result: {self.message}>"
        names = ", ".join(self.rows.schema.names[:_MAX_SHOWN])
        return f"<sql result: {self.rows.num_rows} rows, columns {names}; .rows is a pyarrow table>"


class SqlSession(NamedTables):
    """Executes statements one after the other, with a current database. For one thread.

    Args:
        catalog: Has the databases and tables.
        database: The current database; None: names of tables need a database, until USE.
        is_kept: Whether further statements may follow; otherwise USE would have no effect and is refused.
    """

    def execute(self, sql: str, params: Parameters | None = None) -> SqlResult:
        """Runs one statement.

        Args:
            sql: The statement.
            params: The values of its `:name` parameters.

        Raises:
            InvalidArgument: It cannot be read or does not fit; shows the place, or names table and column.
            NotFound: A database, table or snapshot does not exist.
            LakelogError: An error of the corresponding SDK call.
        """
        check_text(sql, "statement", "SELECT * FROM shop.orders")
        return self.run(parse_statement(sql if params is None else bind_parameters(to_source(sql), params)))

    def run(self, statement: Statement) -> SqlResult:
        """Executes a parsed statement; errors as in `execute`."""
        match statement:
            case Query():
                from lakelog.sql.query.duckdb_query import run_query

                return SqlResult(rows=run_query(self, statement.sql).read_all())
            case Insert():
                return self._insert(statement)
            case Delete() | Update() | Merge() | Truncate():
                return self._change_rows(statement)
            case Call():
                return SqlResult(rows=run_call(self, statement))
            case CreateTable():
                return self._create_table(statement)
            case CreateTableAs():
                return self._create_table_as(statement)
            case DropTable():
                return self._drop_table(statement)
            case AlterOptions():
                table = self.table(statement.name).alter(set=statement.set, unset=statement.unset)
                return SqlResult(f"Options of {self.shown_name(statement.name, table)} changed.")
            case AlterColumns():
                return self._alter_columns(statement)
            case DescribeTable():
                return SqlResult(rows=self._describe(statement.name))
            case ShowCreateTable():
                table = self.table(statement.name)
                return SqlResult(rows=pa.table({"statement": [create_sql_of(table)]}))
            case ShowTables():
                database = statement.database or self._current_database("SHOW TABLES IN shop")
                with self.naming_databases(database):
                    names = self.catalog.tables(database)
                return _list_like("table", names, statement.pattern)
            case ShowDatabases():
                return _list_like("database", self.catalog.databases(), statement.pattern)
            case GrantTo() | RevokeFrom() | ShowGrants():
                return self._run_on_grants(statement)
            case Explain():
                from lakelog.sql.query.explain import explain

                return SqlResult(rows=explain(self, statement))
            case _:
                return self._run_on_database(statement)

    def _describe(self, name: Name) -> pa.Table:
        system_table = self.system_table(name)
        if system_table is None:
            return describe_columns(self.table(name).info.schema).drop_columns(["schema_id", "field_id"])
        schema = TableSchema(0, assign_field_ids(system_table.schema))
        return describe_columns(schema).drop_columns(["schema_id", "field_id"])

    def _run_on_grants(self, statement: GrantTo | RevokeFrom | ShowGrants) -> SqlResult:
        grants = Grants(self.catalog.metastore)
        named = statement.scope
        scope = self.full_name(named) if isinstance(named, Name) else named
        if isinstance(statement, ShowGrants) or scope is None:
            return SqlResult(rows=grants.list(scope, to=statement.caller))
        if isinstance(statement, GrantTo):
            counts = grants.grant(statement.level, scope, statement.caller)
            idle = (
                "" if counts else " It has no effect: this metastore has no tokens, so each caller may do everything."
            )
            return SqlResult(f"{statement.caller} is {statement.level} of {scope} now.{idle}")
        grants.revoke(scope, statement.caller)
        return SqlResult(f"{statement.caller} has no grant on {scope} any more.")

    def _run_on_database(self, statement: CreateDatabase | DropDatabase | UseDatabase) -> SqlResult:
        name = statement.name
        if isinstance(statement, CreateDatabase):
            made = self.catalog.create_database(name, if_not_exists=statement.if_not_exists, comment=statement.comment)
            return SqlResult(f"Database {name} created." if made else f"Database {name} exists already.")
        if isinstance(statement, DropDatabase):
            gone = self.catalog.drop_database(name, if_exists=statement.if_exists, cascade=statement.cascade)
            if gone and self.database == name:
                self.database = None
            return SqlResult(f"Database {name} dropped." if gone else f"There is no database {name}.")
        if not self._is_kept:
            raise InvalidArgument(
                f"USE {name} would end with this call and change nothing. Give database='{name}' with each statement, "
                f"or run them all in one lakelog.sql.SqlSession(catalog, '{name}').",
                reason="NO_DATABASE",
            )
        # Lists its tables, so that a wrong name is an error here and not in the next statement.
        with self.naming_databases(name):
            self.catalog.tables(name)
        self.database = name
        return SqlResult(f"The current database is {name}.")

    def _create_table(self, statement: CreateTable) -> SqlResult:
        name = self.full_name(statement.name)
        table = self.catalog.create_table(
            name,
            statement.schema,
            primary_key=statement.primary_key,
            partition_by=statement.partition_by,
            options=statement.options,
            if_not_exists=statement.if_not_exists,
            comment=statement.comment,
        )
        return SqlResult(f"Table {table.name} {'exists now' if statement.if_not_exists else 'created'}.")

    def _alter_columns(self, statement: AlterColumns) -> SqlResult:
        table = self.table(statement.name)
        changes = statement.changes
        if statement.source is not None:
            changes = resolve_defaults(statement.source, changes, table.info.schema)
        altered = table.alter(columns=changes, comment=statement.comment)
        shown = self.shown_name(statement.name, table)
        if not changes:
            return SqlResult(f"The comment of {shown} changed.")
        return SqlResult(f"Columns of {shown} changed: schema {altered.info.schema.schema_id}.")

    def _create_table_as(self, statement: CreateTableAs) -> SqlResult:
        name = self.full_name(statement.name)
        made = create_table_as(self, name, statement)
        if made is None:
            return SqlResult(f"Table {name} exists already; nothing was written to it.")
        wrote = "the query gave no rows" if made.snapshot_id is None else f"snapshot {made.snapshot_id} written"
        return SqlResult(f"Table {name} created, {wrote}.", table=name, snapshot_id=made.snapshot_id)

    def _drop_table(self, statement: DropTable) -> SqlResult:
        name = self.full_name(statement.name)
        gone = self.catalog.drop_table(name, if_exists=statement.if_exists)
        return SqlResult(f"Table {name} dropped." if gone else f"There is no table {name}.")

    def _insert(self, statement: Insert) -> SqlResult:
        table = self.table(statement.name)
        partition = self._partition_values(table, statement)
        fields = target_fields(table, statement.columns, partition)
        options = read_write_options(statement.options, "INSERT")
        guards = read_guards(options)
        read: dict[str, int] = {}
        if isinstance(statement.rows, Values):
            rows: Any = to_rows(statement.rows, fields)
        else:
            rows = self._query_rows(statement.rows, fields, read)
        if statement.overwrite:
            # The rows may come from the table itself: rows that others have added since would be lost silently.
            guards = guards.meet(Guards(if_snapshot=read.get(table.uuid)))
        commit: CommitOptions = {"if_snapshot": guards.if_snapshot, "if_unchanged": guards.if_unchanged}
        if statement.overwrite:
            # As in Spark's sink: without PARTITION, only the partitions of the new rows are replaced.
            dynamic = "dynamic" if bool(table.partition_by) and options.get(DYNAMIC_PARTITION_OVERWRITE) else None
            result = table.overwrite(rows, partition or dynamic, **commit)
        else:
            if partition:
                static = to_static_partition(partition, table.info)
                rows = (static.fill_in(batch) for batch in to_batches(rows))
            result = table.upsert(rows, **commit) if table.primary_key else table.append(rows, **commit)
        shown = self.shown_name(statement.name, table)
        if result.snapshot_id is None:
            return SqlResult(f"Nothing was written to {shown}: there were no rows.", table=shown)
        message = f"Snapshot {result.snapshot_id} of {shown} written."
        return SqlResult(message, table=shown, snapshot_id=result.snapshot_id)

    def _change_rows(self, statement: Delete | Update | Merge | Truncate) -> SqlResult:
        match statement:
            case Delete():
                table, done = run_delete(self, statement)
            case Update():
                table, done = run_update(self, statement)
            case Merge():
                table, done = run_merge(self, statement)
            case Truncate():
                table, done = run_truncate(self, statement)
        name = statement.name if isinstance(statement, Truncate) else statement.table.name
        shown = self.shown_name(name, table)
        snapshot_id = done.result.snapshot_id
        if snapshot_id is None:
            return SqlResult(f"No row of {shown} was changed.", table=shown, changed=done.counts)
        message = f"Snapshot {snapshot_id} of {shown} written: {describe_counts(done.counts)}."
        return SqlResult(message, table=shown, snapshot_id=snapshot_id, changed=done.counts)

    def _partition_values(self, table: Table, statement: Insert) -> dict[str, Any]:
        if not statement.partition:
            return {}
        assert isinstance(statement.rows, Values | Query)
        fields = {field.name.casefold(): field for field in table.info.schema.arrow}
        values: dict[str, Any] = {}
        for name, syntax in statement.partition:
            field = fields.get(name.casefold())
            if field is None or field.name not in table.partition_by:
                known = f"these are {', '.join(table.partition_by)}" if table.partition_by else "it has none"
                raise InvalidArgument(
                    f"'{name}' is no partition column of {table.name}; {known}.", metadata={"column": name}
                )
            assert statement.source is not None
            value = to_value(statement.source, syntax, field)
            values[field.name] = pa.array([value], field.type)[0].as_py()
        return values

    def _query_rows(self, query: Query, fields: list[pa.Field], read: dict[str, int]) -> pa.RecordBatchReader:
        from lakelog.sql.query.duckdb_query import run_query

        reader = run_query(self, query.sql, read)
        check_column_count(len(reader.schema), fields)
        named = pa.schema([_to_given(given, field) for given, field in zip(reader.schema, fields, strict=True)])
        batches = (
            pa.RecordBatch.from_arrays(
                [each.cast(to) for each, to in zip(batch.columns, named.types, strict=True)], schema=named
            )
            for batch in reader
        )
        return pa.RecordBatchReader.from_batches(named, batches)


def _list_like(column: str, names: Sequence[str], pattern: str | None) -> SqlResult:
    """The names that match a pattern of LIKE, in upper or lower case; None: all. `*` means `%`, as in Spark."""
    if pattern is not None:
        signs = {"%": ".*", "*": ".*", "_": "."}
        matches = re.compile("".join(signs.get(sign) or re.escape(sign) for sign in pattern), re.IGNORECASE)
        names = [name for name in names if matches.fullmatch(name)]
    return SqlResult(rows=pa.table({column: pa.array(names, pa.string())}))


def create_sql_of(table: Table) -> str:
    """The statement that makes a table like this one; see `lakelog.sql.create_table.to_create_sql`."""
    database, _, name = table.name.partition(".")
    from lakelog.format.tables.table import TableName

    return to_create_sql(TableName(database, name), table.info.schema, options=table.options, comment=table.comment)


def _to_given(given: pa.Field, target: pa.Field) -> pa.Field:
    """The type in which a query's column is written: a decimal (1.5) becomes the nearest DOUBLE, as in VALUES."""
    is_decimal = pa.types.is_decimal(given.type) and pa.types.is_floating(target.type)
    return pa.field(target.name, target.type if is_decimal else given.type)


def check_column_count(count: int, fields: Sequence[pa.Field]) -> None:
    """Checks that a query returns a column for each of those that INSERT writes; raises InvalidArgument."""
    if count != len(fields):
        names = ", ".join(field.name for field in fields)
        given = "1 column" if count == 1 else f"{count} columns"
        raise InvalidArgument(
            f"The query returns {given} for {len(fields)} ({names}). Select one for each, or name the columns after "
            "the table."
        )


def target_fields(table: Table, columns: tuple[str, ...], partition: Mapping[str, Any]) -> list[pa.Field]:
    """The columns that an INSERT writes, in the order of its rows.

    Args:
        table: The table.
        columns: Those that the statement names; none: all.
        partition: Columns with a value of the statement.

    Raises:
        InvalidArgument: A column does not exist, is named twice, or is left out.
    """
    schema = table.info.schema.arrow
    if not columns:
        return [field for field in schema if field.name not in partition]
    by_name = {field.name.casefold(): field for field in schema}
    fields = []
    for name in columns:
        field = by_name.get(name.casefold())
        if field is None:
            raise InvalidArgument(
                f"Table {table.name} has no column '{name}'; its columns are {', '.join(schema.names[:50])}.",
                reason="UNKNOWN_COLUMN",
                metadata={"column": name},
            )
        if field in fields or field.name in partition:
            raise InvalidArgument(f"Column '{field.name}' is written twice. Name each once.", metadata={"column": name})
        fields.append(field)
    given = {*partition, *(field.name for field in fields)}
    missing = [field.name for field in schema if field.name not in given and write_default(field) is None]
    if missing:
        raise InvalidArgument(
            f"INSERT leaves out {', '.join(missing[:50])} of {table.name}. Name all columns without a default, and "
            "give NULL (DEFAULT, in VALUES) where there is no value.",
            reason="SCHEMA_MISMATCH",
            metadata={"column": missing[0]},
        )
    return fields
