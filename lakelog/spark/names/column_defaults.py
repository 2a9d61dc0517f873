"""Write defaults of columns as Spark's own: its analyzer fills columns with them that an INSERT leaves out."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyarrow import types as pt

from lakelog.format.types.defaults import write_default
from lakelog.spark.older_files.native_versions import to_sql_constant

_CURRENT: Final = "CURRENT_DEFAULT"
_EXISTS: Final = "EXISTS_DEFAULT"
"""Of rows that were there before the column. Reads by name fill in those by themselves, but Spark asks for both."""


def default_metadata(column: pa.Field) -> dict[str, str]:
    """What the metadata of Spark's field says of a column's write default; empty: it is NULL. Pure."""
    default = write_default(column)
    if default is None:
        return {}
    text = to_sql_constant(default) or _to_cast(default)
    return {_CURRENT: text, _EXISTS: text}


def _to_cast(value: pa.Scalar) -> str:
    if pt.is_decimal(value.type):
        return f"CAST('{value.as_py():f}' AS DECIMAL({value.type.precision}, {value.type.scale}))"
    if pt.is_binary(value.type):
        return f"X'{value.as_py().hex()}'"
    # What a backslash in a text means depends on the session's settings.
    return f"CAST(X'{str(value.as_py()).encode().hex()}' AS STRING)"
