"""Input of the SDK: turns any Arrow source into a stream of batches."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from lakelog.annotations import Rows
from lakelog.errors import InvalidArgument

_DICTS_AT_ONCE: Final = 8192
"""Rows given as dicts that become one batch."""

_MOST_PLACES: Final = 76

_UNNAMED_INDEX: Final = re.compile(r"__index_level_[0-9]+__")


def to_batches(data: Rows, *, fill_missing: bool = False) -> Iterator[pa.RecordBatch]:
    """Returns the batches of `data`, read on demand, so that an iterator can have any length.

    Args:
        data: An object with the Arrow C stream interface (pyarrow, polars, pandas, duckdb ...) or array interface (one
            batch), an iterable of such objects, or of dicts, one per row. A pandas index without a name is left out.
        fill_missing: Dicts may have fewer keys than others: missing values are NULL. Else all need the same keys.

    Yields:
        Batches. The first one has the schema; a stream without rows gives one empty batch.

    Raises:
        InvalidArgument: The data is something else; names its type and what to do.
    """
    if hasattr(data, "__arrow_c_stream__"):
        yield from _read_stream(data)
    elif hasattr(data, "__arrow_c_array__"):
        yield _read_array(data)
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes | Mapping):
        items = iter(data)
        begin = list(itertools.islice(items, 1))
        if begin and isinstance(begin[0], Mapping):
            yield from _read_dicts(itertools.chain(begin, items), fill_missing)
            return
        for number, item in enumerate(itertools.chain(begin, items)):
            if not (hasattr(item, "__arrow_c_stream__") or hasattr(item, "__arrow_c_array__")):
                raise _refusal(item, f"item {number} of the data")
            yield from to_batches(item)
    else:
        raise _refusal(data, "the data")


def to_table(data: Rows, columns: pa.Schema) -> pa.Table:
    """The rows of `data` in memory, as one table.

    Args:
        data: As of `to_batches`. Parts of it, such as thousands of dicts, may have types that differ and go together.
        columns: The columns of data that says nothing of them, which is an empty list.

    Raises:
        InvalidArgument: The data is something else, or its parts do not go together.
    """
    parts = [pa.Table.from_batches([batch]) for batch in to_batches(data)]
    if not parts:
        return columns.empty_table()
    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidArgument(
            f"The rows given as source have columns of different types: {error}. Give one pyarrow Table.",
            reason="SCHEMA_MISMATCH",
        ) from error


def _read_stream(data: Any) -> Iterator[pa.RecordBatch]:
    try:
        reader = pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgument(
            f"The {type(data).__name__} given as data is no stream of rows: {error}. Give a table, not one column."
        ) from error
    unnamed = _unnamed_index(reader.schema)
    empty = True
    for batch in reader:
        empty = False
        yield batch.drop_columns(unnamed) if unnamed else batch
    if empty:
        batch = pa.RecordBatch.from_pylist([], schema=reader.schema)
        yield batch.drop_columns(unnamed) if unnamed else batch


def _read_dicts(rows: Iterable[Any], fill_missing: bool) -> Iterator[pa.RecordBatch]:
    """Makes batches of rows that are given one by one, each a dict of values by column."""
    names: dict[str, None] | None = None
    start = 0
    rows = iter(rows)
    while chunk := list(itertools.islice(rows, _DICTS_AT_ONCE)):
        keys = [_keys(row, number) for number, row in enumerate(chunk, start)]
        if names is None or fill_missing:
            names = dict.fromkeys(itertools.chain.from_iterable(keys if fill_missing else keys[:1]))
        for number, given in enumerate(keys, start):
            if not fill_missing and given != names.keys():
                raise _uneven(number, given, names.keys())
        columns = [_to_array(name, [row.get(name) for row in chunk], start) for name in names]
        yield pa.RecordBatch.from_arrays(columns, names=list(names))
        start += len(chunk)


def _keys(row: Any, number: int) -> Any:
    if not isinstance(row, Mapping):
        raise _refusal(row, f"item {number} of the data, behind dicts")
    if not row:
        # SUBTLE: a batch without columns has no rows in Arrow, so this row would be lost.
        raise InvalidArgument(
            f"Row {number} of the data is an empty dict. Give it at least one column, None where there is no value.",
            metadata={"field": "data", "row": str(number)},
        )
    for name in row:
        if not isinstance(name, str):
            raise InvalidArgument(
                f"Row {number} of the data has the key {name!r:.80}, which is no column's name. Give names as text.",
                metadata={"field": "data"},
            )
    return row.keys()


def _uneven(number: int, given: Any, expected: Any) -> InvalidArgument:
    missing = [name for name in expected if name not in given]
    name = missing[0] if missing else next(name for name in given if name not in expected)
    said = f"has no '{name}', which row 0 has" if missing else f"has '{name}', which row 0 has not"
    return InvalidArgument(
        f"Row {number} of the data {said}. Give each row the same keys, None where there is no value; or say "
        "fill_missing=True: what is missing becomes NULL.",
        reason="SCHEMA_MISMATCH",
        metadata={"column": name, "row": str(number)},
    )


def _to_array(name: str, values: list[Any], start: int) -> pa.Array:
    try:
        if any(isinstance(value, Decimal) for value in values):
            # Arrow does not mix floats with decimals. As in a column of floats, each float becomes its shortest text.
            _check_places([value for value in values if isinstance(value, Decimal)])
            values = [Decimal(repr(float(value))) if isinstance(value, float) else value for value in values]
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        place = next((place for place, value in enumerate(values) if not _fits(value)), None)
        where = "" if place is None else f"row {start + place} has {values[place]!r:.80}: "
        raise InvalidArgument(
            f"The values of '{name}' in the dicts given as data are no column: {where}{str(error)[:300]}. Give values "
            "of one type, text of whole characters, and whole numbers beyond 64 bits as Decimal, which only DECIMAL "
            "columns take; or give a pyarrow table.",
            reason="VALUE_MISMATCH",
            metadata={"column": name},
        ) from error


def _fits(value: Any) -> bool:
    try:
        pa.array([value])
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def _check_places(decimals: list[Decimal]) -> None:
    """SUBTLE: Arrow takes minutes, or ends the process, for numbers with as many places as `Decimal("1e-999999")`."""
    for value in decimals:
        exponent = value.as_tuple().exponent
        if isinstance(exponent, int) and not -_MOST_PLACES <= exponent <= _MOST_PLACES:
            raise ValueError(f"{str(value)[:50]} has more places than a decimal can have")


def _unnamed_index(schema: pa.Schema) -> list[str]:
    """Columns that pandas makes of an index without a name, as in a filtered frame; no user wrote them."""
    if b"pandas" not in (schema.metadata or {}):
        return []
    return [name for name in schema.names if _UNNAMED_INDEX.fullmatch(name)]


def _read_array(data: Any) -> pa.RecordBatch:
    try:
        return pa.record_batch(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgument(
            f"The {type(data).__name__} given as data holds no rows with named columns: {error}. Give a table or a "
            "record batch."
        ) from error


def _refusal(data: Any, what: str) -> InvalidArgument:
    remedy = (
        "give anything with the Arrow C stream interface (pyarrow, polars, pandas, duckdb), an iterator of such, or a "
        "list of dicts"
    )
    if type(data).__name__ == "LazyFrame":
        remedy = "it is a plan that has no rows yet; call .collect() on it"
    if hasattr(data, "to_batches"):
        remedy = "it reads its rows when asked; give what its to_batches() returns"
    if isinstance(data, dict):
        remedy = "make it a table first: pyarrow.table(data); or a list of it, [data], where it is one row"
    return InvalidArgument(
        f"Rows cannot be taken from a {type(data).__name__} ({what}): {remedy}.",
        metadata={"field": "data", "type": type(data).__name__},
    )
