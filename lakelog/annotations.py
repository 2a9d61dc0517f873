"""The types of users' arguments, each with one name, for annotations."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc


class ArrowStream(Protocol):
    """Any source of record batches: tables of pyarrow, polars, pandas and duckdb, scans, SQL results."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A PyCapsule of the Arrow C stream interface."""


class ArrowArray(Protocol):
    """Anything that is one record batch."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
        """Two PyCapsules of the Arrow C data interface."""


class ArrowSchema(Protocol):
    """Anything that is a schema."""

    def __arrow_c_schema__(self) -> object:
        """A PyCapsule of the Arrow C data interface."""


Row: TypeAlias = Mapping[str, object]
"""One row: values by column."""

Rows: TypeAlias = ArrowStream | ArrowArray | Iterable[ArrowStream | ArrowArray | Row]
"""Rows to write: any Arrow data, an iterator of it, or dicts, one for each row.

pyarrow has no type annotations: a type checker would accept anything if its tables were named here.
"""

SchemaLike: TypeAlias = ArrowSchema | Mapping[str, pa.DataType] | Iterable[pa.Field]
"""Columns and their types."""

Condition: TypeAlias = str | pc.Expression
"""A condition on rows: SQL text, or an expression of pyarrow such as `pc.field("id") == 5`."""

Value: TypeAlias = str | int | float | Decimal | bool | bytes | dt.date | dt.datetime | None
"""One value. A datetime without a time zone counts as UTC, as in SQL."""

Parameters: TypeAlias = Mapping[str, Value | Sequence[Value]]
"""Values of the `:name` parameters of a condition or statement; a sequence gives the values of IN."""

OptionValue: TypeAlias = str | int | bool | dt.datetime | dt.date
"""The value of an option; times only for options that are points in time."""

SnapshotLike: TypeAlias = int | str | dt.datetime | dt.date
"""A snapshot by its id, by the name of a tag, or by a time: the newest that was committed at or before it."""

TimeLike: TypeAlias = int | dt.datetime | dt.date | str
"""A point in time: see `lakelog.arguments.to_epoch_ms`."""
