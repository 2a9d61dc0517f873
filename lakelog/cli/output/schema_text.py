"""Columns as SQL text: read from `--schema`, written by `describe` and `show-create`. Pure."""

from __future__ import annotations

import pyarrow as pa

from lakelog.errors import InvalidArgument
from lakelog.format.types.defaults import show_default
from lakelog.format.types.sql_types import from_sql_type, to_sql_type

_FRAME = "STRUCT<"


def parse_columns(text: str) -> pa.Schema:
    """Reads columns, for instance `id BIGINT NOT NULL, name STRING, price DECIMAL(10, 2)`.

    Raises:
        InvalidArgument: The message says what was expected at which character of `text`.
    """
    if not text.strip():
        raise InvalidArgument(
            '--schema names no columns. Write for instance --schema "id BIGINT NOT NULL, name STRING".'
        )
    try:
        # A list of columns has the syntax of a struct's fields.
        struct = from_sql_type(f"{_FRAME}{text}>")
    except InvalidArgument as error:
        position = int(error.metadata.get("position", "0")) - len(_FRAME)
        _, found, expected = error.message.partition(", expected ")
        if position < 1 or not found:
            raise
        there = repr(text[position - 1 : position + 19]) if position <= len(text) else "the end"
        expected = (
            expected.rstrip(".")
            .replace("'>'", "a comma or the end")
            .replace("the end of the type", "a comma or the end")
        )
        raise InvalidArgument(
            f"--schema cannot be read: at character {min(position, len(text) + 1)} stands {there}, expected "
            f"{expected}. "
            'Write for instance "id BIGINT NOT NULL, name STRING".',
            metadata={"field": "schema"},
        ) from error
    return pa.schema([struct.field(i) for i in range(struct.num_fields)])


def describe_columns(
    schema: pa.Schema, primary_key: tuple[str, ...], partition_by: tuple[str, ...]
) -> list[dict[str, object]]:
    """One record for each column: `name`, SQL `type`, `nullable`, `default`, `comment`, places in key and partition.

    `primary_key` and `partition` count from 1 and are None for other columns.
    """
    return [
        {
            "name": field.name,
            "type": to_sql_type(field.type),
            "nullable": field.nullable,
            "primary_key": primary_key.index(field.name) + 1 if field.name in primary_key else None,
            "partition": partition_by.index(field.name) + 1 if field.name in partition_by else None,
            "default": show_default(field),
            "comment": (field.metadata or {}).get(b"comment", b"").decode(errors="replace"),
        }
        for field in schema
    ]
