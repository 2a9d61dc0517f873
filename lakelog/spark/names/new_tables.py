"""Makes tables from the columns of a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema


def to_table_schema(columns: st.StructType, primary_key: Sequence[str]) -> pa.Schema:
    """The schema of a new table; columns of its key cannot be NULL. Pure.

    Args:
        columns: As Spark names and types them; a field's metadata may have a `comment`.
        primary_key: Columns of the key.
    """
    arrow = to_arrow_schema(columns, timezone="UTC")
    fields = []
    for field, column in zip(arrow, columns, strict=True):
        comment = column.metadata.get("comment")
        nullable = column.nullable and column.name not in primary_key
        fields.append(pa.field(field.name, field.type, nullable, {"comment": comment} if comment else None))
    return pa.schema(fields)
