"""Changes of a table's columns: each makes a new version of its schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from lakelog.errors import InvalidArgument, ResourceExhausted
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.column_changes import AddColumn, ColumnChange, CommentColumn
from lakelog.format.types.evolution import ColumnRoles, evolve, find_renames
from lakelog.format.types.schema import TableSchema
from lakelog.options.column_options import find_named_columns, rename_in_options
from lakelog.options.declared.tables import BUCKET_KEY
from lakelog.options.validate import validate_table_options
from lakelog.options.values import TableOptions

from ..ownership import Principal
from ..store.transaction import Store, Transaction, run_transaction
from ..store.validation import MAX_COMMENT, check_text, check_uuid
from .catalog import make_columns
from .lookup import find_table, lock_head

MAX_SCHEMAS: Final = 10_000
"""Versions of a table's schema: it would be a program in a loop that makes more."""

MAX_SCHEMA_BYTES: Final = 4 << 20
"""One version, as stored: what a request for a new table can have. Each plan carries at least one."""

MAX_SCHEMAS_BYTES: Final = 48 << 20
"""All versions of a table's schema: they are listed in one message of 64 MiB, without which streams cannot go on."""


class Columns:
    """The use case of changing columns.

    Args:
        store: Where everything is stored.
        altered: Called with the uuid of each table that was altered.
    """

    def __init__(self, store: Store, altered: Callable[[str], None]) -> None:
        self._store = store
        self._altered = altered

    async def alter_columns(
        self, table_uuid: str, *, changes: Sequence[ColumnChange], comment: str | None = None, by: Principal
    ) -> TableInfo:
        check_uuid("table_uuid", table_uuid)
        if comment is not None:
            check_text("comment", comment, 0, MAX_COMMENT)
        elif not changes:
            raise InvalidArgument(
                "There is neither a change of columns nor a comment. Give one.", metadata={"field": "changes"}
            )
        for change in changes:
            if isinstance(change, AddColumn | CommentColumn):
                check_text("changes.comment", change.comment, 0, MAX_COMMENT)

        async def alter(tx: Transaction) -> TableInfo:
            head = await lock_head(tx, table_uuid)
            found = await find_table(tx, table_uuid)
            if comment is not None:
                await tx.set_comment(found.table_id, comment)
            if changes:
                if head.schema_id + 1 >= MAX_SCHEMAS:
                    raise ResourceExhausted(
                        f"Table {head.name} has had {head.schema_id + 1} versions of its schema, and there can be "
                        f"at most {MAX_SCHEMAS}. Make a new table with the columns that it should have (CREATE TABLE "
                        "... AS SELECT)."
                    )
                schema, options = plan_schema(found.info, changes)
                _check_size(head.name, schema, await tx.measure_schemas(found.table_id))
                await tx.add_schema(found.table_id, replace(schema, created_by=by.name))
                if options != found.info.options:
                    await tx.set_options(found.table_id, options)
            altered = await tx.find_table_by_uuid(table_uuid)
            assert altered is not None, "its head is locked"
            return altered.info

        altered = await run_transaction(self._store, alter)
        self._altered(table_uuid)
        return altered


def _check_size(table: str, schema: TableSchema, stored_bytes: int) -> None:
    size_bytes = len(schema.to_ipc())
    if size_bytes > MAX_SCHEMA_BYTES:
        raise ResourceExhausted(
            f"The schema of {table} would have {size_bytes} bytes, and at most {MAX_SCHEMA_BYTES} are possible. "
            "Shorten comments, drop columns, or put rarely used ones into a map."
        )
    if stored_bytes + size_bytes > MAX_SCHEMAS_BYTES:
        raise ResourceExhausted(
            f"The versions of the schema of {table} would have {stored_bytes + size_bytes} bytes together, and at most "
            f"{MAX_SCHEMAS_BYTES} are possible. Change several columns at once, or make a new table with the columns "
            "that it should have (CREATE TABLE ... AS SELECT)."
        )


def plan_schema(table: TableInfo, changes: Sequence[ColumnChange]) -> tuple[TableSchema, dict[str, str]]:
    """The next version of a table's schema, and its options under the columns' new names. Pure.

    Args:
        table: The table.
        changes: What changes.

    Raises:
        InvalidArgument: A change is not possible; names the column and the remedy.
    """
    schema = table.schema
    named = find_named_columns(table.options)
    buckets = named.pop(BUCKET_KEY.key, ()) or (
        schema.trimmed_key if TableOptions(table.options).bucket_count(bool(schema.primary_key)) > 0 else ()
    )
    roles = ColumnRoles(schema.primary_key, schema.partition_by, buckets, named)
    changed = evolve(schema, changes, roles)
    options = rename_in_options(table.options, find_renames(schema, changed))
    columns = make_columns(changed.arrow, changed.primary_key, changed.partition_by)
    validate_table_options(
        options,
        columns=columns,
        primary_key=changed.primary_key,
        partition_by=changed.partition_by,
        current=table.options,
    )
    return changed, options
