"""The refusal of a column that the source of a pipeline has and its table does not."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lakelog.errors import InvalidArgument
from lakelog.format.types.sql_types import to_sql_type
from lakelog.format.types.types import canonical_type

NEW_COLUMN: Final = "NEW_COLUMN"
"""The reason of the error for a column of the source that the table does not have."""


def to_refusal(where: str, field: pa.Field, table: str, **metadata: str) -> InvalidArgument:
    """The error for a new column, which says how to add it. Pure.

    Args:
        where: What has the column, as the beginning of a sentence.
        field: The column.
        table: The table's name.
        metadata: More for programs.
    """
    name = field.name[:100]
    sql_type = to_sql_type(canonical_type(field.type, field.name))
    return InvalidArgument(
        f"{where} has the column '{name}', which table {table} does not have. Nothing of this batch was committed. Add "
        f"it by ALTER TABLE {table} ADD COLUMN {name} {sql_type}, or set schema.evolution: add-columns, which does so, "
        "or ignore.",
        reason=NEW_COLUMN,
        metadata={"column": name, "table": table, **metadata},
    )


def to_unclear_refusal(where: str, name: str, said: str, table: str, **metadata: str) -> InvalidArgument:
    """The error for a new column whose type its schema does not tell. Pure.

    Args:
        where: What has the column, as the beginning of a sentence.
        name: The column's name.
        said: What the schema says of it.
        table: The table's name.
        metadata: More for programs.
    """
    return InvalidArgument(
        f"{where} has the column '{name[:100]}', which table {table} does not have, and its schema does not tell the "
        f"type: {said}. Nothing of this batch was committed. Correct the source, add the column by ALTER TABLE {table} "
        "ADD COLUMN, or set schema.evolution: ignore.",
        reason=NEW_COLUMN,
        metadata={"column": name[:100], "table": table, **metadata},
    )
