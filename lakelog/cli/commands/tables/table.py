"""`lakelog table`: make, list and describe tables, set their options, drop them."""

from __future__ import annotations

from typing import Any

import click
import pyarrow as pa

from lakelog.arguments import parse_table_name
from lakelog.cli.commands.tables.check import check
from lakelog.cli.commands.tables.compact import compact
from lakelog.cli.commands.tables.dropped import list_dropped, restore
from lakelog.cli.commands.tables.expire import expire
from lakelog.cli.commands.tables.expire_partitions import expire_partitions
from lakelog.cli.commands.tables.rollback import rollback
from lakelog.cli.input.arguments import parse_options, split_names
from lakelog.cli.input.confirmation import confirm
from lakelog.cli.input.source_files import read_file_schema
from lakelog.cli.invocation import Invocation, LakelogGroup, pass_invocation
from lakelog.cli.output.printer import Column
from lakelog.cli.output.schema_text import describe_columns, parse_columns
from lakelog.cli.output.text import format_bytes, format_count, format_time
from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableInfo, TableName

_LIST = (
    Column("name", "TABLE", may_cut=True),
    Column("primary_key", "PRIMARY KEY", ", ".join, may_cut=True),
    Column("partition_by", "PARTITIONED BY", ", ".join, may_cut=True),
    Column("snapshot_id", "SNAPSHOT", right=True),
    Column("created_at", "CREATED AT"),
    Column("comment", "COMMENT", may_cut=True),
)


def _format_place(place: int | None) -> str:
    return "" if place is None else str(place)


_COLUMNS = (
    Column("name", "COLUMN", may_cut=True),
    Column("type", "TYPE", may_cut=True),
    Column("nullable", "NULL", lambda nullable: "" if nullable else "NOT NULL"),
    Column("primary_key", "KEY", _format_place, right=True),
    Column("partition", "PARTITION", _format_place, right=True),
    Column("default", "DEFAULT", may_cut=True),
    Column("comment", "COMMENT", may_cut=True),
)
_FACTS = (
    Column("name", "Table"),
    Column("comment", "Comment"),
    Column("primary_key", "Primary key", ", ".join),
    Column("partition_by", "Partitioned by", ", ".join),
    Column("uuid", "UUID"),
    Column("location", "Location"),
    Column("created_at", "Created at"),
    Column("schema_id", "Schema"),
    Column("snapshot_id", "Snapshot", lambda number: "none yet" if number is None else str(number)),
    Column("committed_at", "Committed at"),
    Column("rows", "Stored rows", format_count),
    Column("files", "Files", format_count),
    Column("bytes", "Size", format_bytes),
    Column("options", "Options", lambda options: ", ".join(f"{k}={v}" for k, v in sorted(options.items()))),
)


@click.group(cls=LakelogGroup)
def table() -> None:
    """Make, list and describe tables, set their options, roll back and drop them."""


@table.command(
    example=(
        'lakelog table create shop.orders --schema "id BIGINT NOT NULL, item STRING" --primary-key id',
        "lakelog table create shop.visits --schema-from visits.parquet --partition-by day",
    )
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.option("--schema", "schema_text", metavar="COLUMNS", help='As in SQL: "id BIGINT NOT NULL, name STRING".')
@click.option(
    "--schema-from",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Take the columns of a .parquet or .arrow file instead.",
)
@click.option(
    "--primary-key", metavar="COLUMNS", help="Names separated by commas; without it the table is an append table."
)
@click.option("--partition-by", metavar="COLUMNS", help="Names separated by commas.")
@click.option("-O", "--option", "settings", multiple=True, metavar="KEY=VALUE", help="A table option; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the table exists already.")
@click.option("--comment", default="", help="A comment.")
@pass_invocation
def create(
    invocation: Invocation,
    name: str,
    schema_text: str | None,
    schema_from: str | None,
    primary_key: str | None,
    partition_by: str | None,
    settings: tuple[str, ...],
    if_not_exists: bool,
    comment: str,
) -> None:
    """Make a table."""
    if (schema_text is None) == (schema_from is None):
        raise InvalidArgument("Give the columns by either --schema or --schema-from.")
    schema = parse_columns(schema_text) if schema_text is not None else read_file_schema(str(schema_from))
    keys = split_names(primary_key) or []
    if schema_from is not None:
        # The schemas of files rarely say NOT NULL, which keys must be.
        schema = pa.schema([f.with_nullable(f.nullable and f.name not in keys) for f in schema])
    info, made = invocation.metastore.create_table(
        parse_table_name(name),
        schema,
        primary_key=keys,
        partition_by=split_names(partition_by) or [],
        options=parse_options(settings, "--option"),
        if_not_exists=if_not_exists,
        comment=comment,
    )
    sentence = f"Created table {info.name}." if made else f"Table {info.name} existed already; nothing was changed."
    invocation.printer.done(sentence, {"table": str(info.name), "uuid": info.table_uuid, "created": made})


@table.command("list")
@click.argument("database", required=False)
@click.option("--dropped", is_flag=True, help="List dropped tables that can still be restored.")
@pass_invocation
def list_(invocation: Invocation, database: str | None, dropped: bool) -> None:
    """List the tables of DATABASE, or of all databases."""
    if dropped:
        list_dropped(invocation, database)
        return
    metastore = invocation.metastore
    databases = [database] if database else [found.name for found in metastore.list_databases()]
    records = [
        _summary(metastore.get_table(TableName(name, table_name)))
        for name in databases
        for table_name in metastore.list_tables(name)
    ]
    where = f"in database {database} " if database else ""
    invocation.printer.records(
        _LIST, records, empty=f"There are no tables {where}yet. Make one: lakelog table create --help"
    )


@table.command()
@click.argument("name", metavar="DATABASE.TABLE")
@pass_invocation
def describe(invocation: Invocation, name: str) -> None:
    """Show a table's columns, options and size."""
    info = invocation.metastore.get_table(parse_table_name(name))
    page = invocation.metastore.list_snapshots(info.table_uuid, limit=1, newest=True)
    newest = page.snapshots[-1] if page.snapshots else None
    schema = info.schema
    record: dict[str, Any] = {
        **_summary(info),
        "uuid": info.table_uuid,
        "location": info.location,
        "schema_id": schema.schema_id,
        "committed_at": format_time(newest.committed_at_ms) if newest else None,
        "rows": newest.total_rows if newest else None,
        "files": newest.total_files if newest else None,
        "bytes": newest.total_bytes if newest else None,
        "options": dict(info.options),
        "columns": describe_columns(schema.arrow, schema.primary_key, schema.partition_by),
    }
    printer = invocation.printer
    if printer.for_programs:
        printer.document(record)
        return
    shown = [
        column
        for column in _COLUMNS
        if column.key in ("name", "type")
        or any(column.format(described[column.key]) for described in record["columns"])
    ]
    with printer.paging():
        printer.facts(_FACTS, record)
        printer.say("")
        printer.records(shown, record["columns"], empty="")


@table.command("show-create")
@click.argument("name", metavar="DATABASE.TABLE")
@pass_invocation
def show_create(invocation: Invocation, name: str) -> None:
    """Show the statement that makes this table, for `lakelog sql`."""
    from lakelog.sql import create_sql_of

    statement = create_sql_of(invocation.catalog.table(name))
    if invocation.printer.for_programs:
        invocation.printer.document({"table": name, "statement": statement})
    else:
        invocation.printer.raw(statement.rstrip(";\n") + ";\n")


@table.command(
    example=(
        "lakelog table alter shop.orders 'ADD COLUMN note STRING AFTER id'",
        "lakelog table alter shop.orders 'RENAME COLUMN price TO amount' 'ALTER COLUMN quantity TYPE BIGINT'",
    )
)
@click.argument("name", metavar="DATABASE.TABLE")
@click.argument("changes", metavar="CHANGE...", nargs=-1)
@click.option("--comment", help="What the table is for.")
@pass_invocation
def alter(invocation: Invocation, name: str, changes: tuple[str, ...], comment: str | None) -> None:
    """Change columns, all or none. Each CHANGE is written as behind ALTER TABLE in SQL.

    There are ADD COLUMN, DROP COLUMN, RENAME COLUMN a TO b, and ALTER COLUMN a followed by TYPE, DROP NOT NULL,
    COMMENT, SET DEFAULT, DROP DEFAULT, FIRST or AFTER. Fields inside a column are written a.b.
    """
    from lakelog.sql.alter_columns import parse_clauses

    found = invocation.catalog.table(name)
    if not changes and comment is None:
        raise InvalidArgument(
            "There is nothing to change. Give a change such as 'ADD COLUMN note STRING', or --comment."
        )
    altered = found.alter(columns=parse_clauses(changes, found.info.schema), comment=comment)
    schema = altered.info.schema
    invocation.printer.done(
        f"Columns of {altered.name}: {', '.join(schema.arrow.names)} (schema {schema.schema_id}).",
        {"table": altered.name, "schema_id": schema.schema_id, "columns": schema.arrow.names},
    )


@table.group(cls=LakelogGroup)
def options() -> None:
    """Change the options of a table; docs/options.md lists them."""


@options.command("set")
@click.argument("name", metavar="DATABASE.TABLE")
@click.argument("settings", metavar="KEY=VALUE...", nargs=-1, required=True)
@pass_invocation
def set_(invocation: Invocation, name: str, settings: tuple[str, ...]) -> None:
    """Set options."""
    _alter(invocation, name, parse_options(settings, "The setting"), ())


@options.command()
@click.argument("name", metavar="DATABASE.TABLE")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@pass_invocation
def unset(invocation: Invocation, name: str, keys: tuple[str, ...]) -> None:
    """Reset options to their defaults."""
    _alter(invocation, name, {}, keys)


@table.command()
@click.argument("name", metavar="DATABASE.TABLE")
@click.option("--if-exists", is_flag=True, help="Do nothing if there is no such table.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@pass_invocation
def drop(invocation: Invocation, name: str, if_exists: bool, yes: bool) -> None:
    """Drop a table. For a while it can be restored."""
    parsed = parse_table_name(name)
    confirm(invocation, f"Drop table {parsed}?", yes, declined="Nothing was dropped.")
    dropped = invocation.metastore.drop_table(parsed, if_exists=if_exists)
    sentence = (
        f"Dropped table {parsed}. lakelog table list {parsed.database} --dropped shows until when it can be restored."
        if dropped
        else f"There is no table {parsed}; nothing was changed."
    )
    invocation.printer.done(sentence, {"table": str(parsed), "dropped": dropped})


def _alter(invocation: Invocation, name: str, set_options: dict[str, str], unset_options: tuple[str, ...]) -> None:
    metastore = invocation.metastore
    found = metastore.get_table(parse_table_name(name))
    info = metastore.alter_table(found.table_uuid, set_options=set_options, unset_options=unset_options)
    shown = ", ".join(f"{key}={value}" for key, value in sorted(info.options.items())) or "all defaults"
    invocation.printer.done(
        f"Options of {info.name}: {shown}", {"table": str(info.name), "options": dict(info.options)}
    )


def _summary(info: TableInfo) -> dict[str, Any]:
    return {
        "name": str(info.name),
        "primary_key": list(info.schema.primary_key),
        "partition_by": list(info.schema.partition_by),
        "snapshot_id": info.latest_snapshot_id or None,
        "created_at": format_time(info.created_at_ms),
        "comment": info.comment,
    }


for _command in (rollback, check, expire, expire_partitions, compact, restore):
    table.add_command(_command)
