"""Input of the SDK: whatever speaks Arrow becomes a stream of batches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import InvalidArgument

_UNNAMED_INDEX: Final = re.compile(r"__index_level_[0-9]+__")


def to_batches(data: Any) -> Iterator[pa.RecordBatch]:
    """Returns the batches of `data`, read as they are asked for, so that an iterator of any length is possible.

    Args:
        data: Anything with the Arrow C stream interface (pyarrow, polars, pandas, duckdb ...) or array interface (one
            batch), or an iterable of such things. An index of pandas without a name is left out.

    Yields:
        At least the schema is known from the first batch; a stream without rows gives one empty batch.

    Raises:
        InvalidArgument: It is something else; names its type and what to do.
    """
    if hasattr(data, "__arrow_c_stream__"):
        yield from _read_stream(data)
    elif hasattr(data, "__arrow_c_array__"):
        yield _read_array(data)
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        for number, item in enumerate(data):
            if not (hasattr(item, "__arrow_c_stream__") or hasattr(item, "__arrow_c_array__")):
                raise _refusal(item, f"item {number} of the data")
            yield from to_batches(item)
    else:
        raise _refusal(data, "the data")


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


def _unnamed_index(schema: pa.Schema) -> list[str]:
    """Columns that pandas makes of an index without a name, as a filtered frame has it: nobody wrote them."""
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
    remedy = "give anything with the Arrow C stream interface (pyarrow, polars, pandas, duckdb) or an iterator of such"
    if type(data).__name__ == "LazyFrame":
        remedy = "it is a plan that has no rows yet; call .collect() on it"
    if hasattr(data, "to_batches"):
        remedy = "it reads its rows when asked; give what its to_batches() returns"
    if isinstance(data, dict):
        remedy = "make it a table first: pyarrow.table(data), or pyarrow.Table.from_pylist([...]) for single rows"
    return InvalidArgument(
        f"Rows cannot be taken from a {type(data).__name__} ({what}): {remedy}.",
        metadata={"field": "data", "type": type(data).__name__},
    )
