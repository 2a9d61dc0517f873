"""Casts input to a table's schema if nothing is lost.

There are two steps. First the schemas are compared, and everything that can never fit is reported at once, a line for
each column. Then the values are cast; a value that would change stops the cast and is named with its column and row.
Text is never parsed into numbers or dates: the user decides what a text means.
"""

from __future__ import annotations

import datetime as dt
import difflib
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import pyarrow as pa
from pyarrow import types as pt

from lakelog.errors import InvalidArgument
from lakelog.format.types.convert import ValueLost, convert_values, find_mismatch
from lakelog.format.types.defaults import fill_left_out, write_default
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.format.types.time_text import to_time_texts

_MAX_REPORTED: Final = 50
"""Lines of a difference; more of them do not help."""

_MAX_GUESSED: Final = 10
"""Unknown columns for which the nearest name is looked for: with 5000 columns that takes 10 ms for each."""


def cast_batch(
    batch: pa.RecordBatch | pa.Table, schema: pa.Schema, *, fill_missing: bool = False
) -> pa.RecordBatch | pa.Table:
    """Returns the rows with the table's columns, order and types (semantics 1.5). Pure.

    Columns are matched by name, children of structs too. Values are cast if they stay the same: widths of integers and
    floats, whole floats to integers, integers to decimals, floats and decimals to each other if they are written alike
    (0.1), units of timestamps, dictionaries to their values. A delete by key alone passes a schema in which the other
    columns are nullable.

    Args:
        batch: The input, with any Arrow types.
        schema: The table's columns with canonical types (`lakelog.format.types.types`).
        fill_missing: Nullable columns without a default that the input leaves out become NULL; else they are an error.

    Returns:
        A batch or table, as given, of exactly `schema`; columns that fit are not copied.

    Raises:
        InvalidArgument: The schemas do not fit: all problems together, a line for each column. Or a value does not: the
            first such value of a column with its row number, counted from 0 in this batch; this includes NULL in a NOT
            NULL column and text that is not UTF-8.
    """
    if _fits_as_it_is(batch, schema):
        return type(batch).from_arrays(batch.columns, schema=schema)
    check_schema(batch.schema, schema, fill_missing=fill_missing)
    names = set(batch.schema.names)
    columns: list[pa.Array | pa.ChunkedArray] = []
    for field in schema:
        if field.name not in names:
            columns.append(fill_left_out(field, batch.num_rows))
            continue
        column = batch.column(field.name)
        if isinstance(column, pa.ChunkedArray):
            columns.append(_cast_chunks(column, field))
        else:
            columns.append(_cast_array(column, field, 0))
    if isinstance(batch, pa.RecordBatch):
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    return pa.Table.from_arrays(columns, schema=schema)


def check_schema(
    given: pa.Schema,
    expected: pa.Schema,
    *,
    fill_missing: bool = False,
    fill_option: str = "fill_missing",
    merge_option: str | None = None,
) -> None:
    """Checks that rows of a schema can be cast to a table's schema, as far as the types show.

    Args:
        given: The rows' columns.
        expected: The table's columns.
        fill_missing: As of `cast_batch`.
        fill_option: The caller's name for `fill_missing`, for the error.
        merge_option: The caller's name for adding columns to the table, for the error; None: it has no such option.

    Raises:
        InvalidArgument: With the difference: one line per column, with the expected type, the given one and what to do.
    """
    counts = Counter(given.names)
    # SUBTLE: each access to `given.names` makes a new list of all of them, and each search by name reads all fields.
    types = dict(zip(given.names, given.types, strict=True))
    lines = [
        (name, "one column", f"{count} columns of this name", "rename or drop all but one")
        for name, count in counts.items()
        if count > 1
    ]
    left_out: list[tuple[str, str, str, str]] = []
    for field in expected:
        if field.name not in counts:
            if write_default(field) is not None:
                continue
            if not field.nullable:
                lines.append((field.name, _type_text(field), "nothing", "add the column; it is NOT NULL"))
            elif not fill_missing:
                to_do = f"add the column, or set {fill_option} for NULL"
                left_out.append((field.name, _type_text(field), "nothing", to_do))
        elif counts[field.name] == 1:
            got = types[field.name]
            remedy = find_mismatch(got, field.type)
            if remedy is not None:
                lines.append((field.name, _type_text(field), _shorten(str(got)), remedy))
    known = set(expected.names)
    unknown = [name for name in counts if name not in known]
    # Columns that the input has already cannot be the intended ones.
    free = [name for name in expected.names if name not in counts]
    by_case = {name.casefold(): name for name in free}
    meant: set[str] = set()
    for place, name in enumerate(unknown):
        near = [by_case[name.casefold()]] if name.casefold() in by_case else []
        if not near and place < _MAX_GUESSED:
            near = difflib.get_close_matches(name[:200], free, n=1)
        meant.update(near)
        remedy = "drop it, or add it to the table"
        remedy += (f", as {merge_option} does" if merge_option else "") + (
            f"; or is '{near[0]}' meant?" if near else ""
        )
        if name == ROW_KIND_COLUMN:
            remedy = "drop it, or give rows with kinds to write()"
        lines.append((name, "no such column", _shorten(str(types[name])), remedy))
    lines += [line for line in left_out if line[0] not in meant]
    if lines:
        raise InvalidArgument(_difference(lines), reason="SCHEMA_MISMATCH", metadata={"column": lines[0][0]})


def show_value(value: pa.Scalar) -> str:
    """A value for messages: as Python writes it, but times and decimals in plain form; cut if it is long. Pure."""
    try:
        shown = value.as_py()
        if isinstance(shown, dt.date):
            return f"'{shown}'"
        return str(shown) if isinstance(shown, Decimal) else _shorten(repr(shown))
    except (ValueError, OverflowError, pa.ArrowException):
        # Bytes that are not UTF-8, and times beyond Python's, have no Python value.
        return (
            str(to_time_texts(pa.repeat(value, 1))[0]) if pt.is_temporal(value.type) else "a value that cannot be shown"
        )


def _fits_as_it_is(batch: pa.RecordBatch | pa.Table, schema: pa.Schema) -> bool:
    """Whether names, order, types and values are the table's already.

    Most input is, and the full cast takes a tenth of a small write. What does not fit takes the full cast, which says
    why; so do nested columns, since their fields may be NOT NULL.
    """
    given, types = batch.schema, schema.types
    if given.names != schema.names or given.types != types or any(map(pt.is_nested, types)):
        return False
    if any(not field.nullable and batch.column(place).null_count for place, field in enumerate(schema)):
        return False
    try:
        # As in `convert_values`.
        batch.validate(full=True)
    except pa.ArrowException:
        return False
    return True


def _difference(lines: Sequence[tuple[str, str, str, str]]) -> str:
    shown = [f"  {name}: expected {expected}, got {got}: {remedy}" for name, expected, got, remedy in lines]
    if len(shown) > _MAX_REPORTED:
        shown[_MAX_REPORTED:] = [f"  and {len(lines) - _MAX_REPORTED} more columns"]
    columns = "one column" if len(lines) == 1 else f"{len(lines)} columns"
    return f"The input does not fit the table's schema in {columns}:\n" + "\n".join(shown)


def _type_text(field: pa.Field) -> str:
    return _shorten(str(field.type)) + ("" if field.nullable else " NOT NULL")


def _shorten(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "..."


def _cast_chunks(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    chunks: list[pa.Array] = []
    start = 0
    for chunk in column.chunks:
        chunks.append(_cast_array(chunk, field, start))
        start += len(chunk)
    return pa.chunked_array(chunks, field.type)


def _cast_array(array: pa.Array, field: pa.Field, start: int) -> pa.Array:
    try:
        return convert_values(array, field)
    except ValueLost:
        row, lost = _first_offence(array, field)
    raise InvalidArgument(
        f"Column '{field.name}' has {show_value(array[row])} in row {start + row}: {lost}.",
        reason="VALUE_MISMATCH",
        metadata={"column": field.name, "row": str(start + row)},
    )


def _first_offence(array: pa.Array, field: pa.Field) -> tuple[int, ValueLost]:
    """Returns the first row that cannot be cast, by halving: costs as much as one more cast, only before an error."""
    first, last = 0, len(array)
    lost: ValueLost | None = None
    while lost is None or last - first > 1:
        middle = last if lost is None else (first + last) // 2
        try:
            convert_values(array.slice(first, middle - first), field)
            first = middle
        except ValueLost as error:
            lost, last = error, middle
    return first, lost
