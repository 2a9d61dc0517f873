"""Columns that rows bring and a table lacks: added to the table before the rows are written.

Why it may be repeated, and done by several at once: what is missing is found anew from the table as it is, and the
metastore makes each change once. A program that dies in between leaves columns that the next one finds there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyarrow import types as pt

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument, OutcomeUnknown
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.column_changes import AddColumn, ColumnChange, WidenColumn
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.format.types.types import canonical_type
from lakelog.format.types.widening import is_widening

COLUMN_IN_USE: Final = "COLUMN_IN_USE"
"""The reason of the metastore's refusal to widen a key in a way that would move its rows."""

_MOST_TRIES: Final = 10
"""Each time another program has changed the columns in between."""


def plan_merge(table: pa.Schema, given: pa.Schema) -> list[ColumnChange]:
    """The changes after which a table has all columns of some rows, in types that hold their values. Pure.

    Columns and fields that the table lacks are added behind its own, and can be NULL. A type that the rows' type holds
    without loss becomes that. Whatever else differs is left to the write, which casts or refuses it; so is a wider type
    of a key or bucket column that would change its place or encoding.

    Args:
        table: The table's columns.
        given: The rows' columns.

    Raises:
        InvalidArgument: A column to add has a type that a table cannot have.
    """
    fields = [field for field in given if field.name != ROW_KIND_COLUMN]
    return list(_merge(list(table), fields, ()))


def merge_columns(metastore: Metastore, table: TableInfo, given: pa.Schema) -> TableInfo:
    """Changes a table so that it has all columns of some rows; blocks. Idempotent.

    Args:
        metastore: Makes the changes.
        table: The table.
        given: The rows' columns.

    Returns:
        The table with these columns.

    Raises:
        InvalidArgument: A change is not possible, as of `lakelog.Table.alter`.
        PermissionDenied: The caller may not alter the table.
    """
    changes, bound = plan_merge(table.schema.arrow, given), set[str]()
    for _ in range(_MOST_TRIES):
        if not changes:
            return table
        try:
            return metastore.alter_columns(table.table_uuid, changes=changes)
        except (InvalidArgument, OutcomeUnknown) as error:
            # Perhaps it is done, by another program or by the call whose answer was lost.
            table = metastore.get_table_by_uuid(table.table_uuid)
            if error.reason == COLUMN_IN_USE:
                bound.add(error.metadata["column"])
            before, changes = changes, _without(plan_merge(table.schema.arrow, given), bound)
            if isinstance(error, InvalidArgument) and changes == before:
                raise
    return metastore.alter_columns(table.table_uuid, changes=changes)


def _without(changes: Sequence[ColumnChange], bound: set[str]) -> list[ColumnChange]:
    """The changes without those of columns that keep their type, into which the write casts what fits."""
    return [change for change in changes if change.column[0] not in bound]


def _merge(known: Sequence[pa.Field], given: Sequence[pa.Field], parents: tuple[str, ...]) -> Iterator[ColumnChange]:
    by_name = {field.name: field for field in known}
    # SQL takes names of different case for one. The write refuses such a column, and says which one may be meant.
    taken = {field.name.casefold() for field in known}
    for field in given:
        path = (*parents, field.name)
        if field.name in by_name:
            yield from _widen(by_name[field.name].type, field.type, path)
        elif field.name.casefold() not in taken:
            taken.add(field.name.casefold())
            yield AddColumn(path, canonical_type(field.type, ".".join(path)))


def _widen(known: pa.DataType, given: pa.DataType, path: tuple[str, ...]) -> Iterator[ColumnChange]:
    if pt.is_dictionary(given):
        given = given.value_type
    if pt.is_struct(known) and pt.is_struct(given):
        yield from _merge(known.fields, given.fields, path)
    elif pt.is_list(known) and (pt.is_list(given) or pt.is_large_list(given)):
        yield from _widen(known.value_type, given.value_type, (*path, "element"))
    elif pt.is_map(known) and pt.is_map(given):
        yield from _widen(known.item_type, given.item_type, (*path, "value"))
    elif not pt.is_nested(given) and not pt.is_null(given):
        # A type that no table can have is left to the write as well.
        with contextlib.suppress(InvalidArgument):
            wanted = canonical_type(given, ".".join(path))
            if is_widening(known, wanted):
                yield WidenColumn(path, wanted)
