"""Makes tables from the columns of a DataFrame."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from lakelog.arguments import to_option_texts, to_texts
from lakelog.errors import AlreadyExists, InvalidArgument, LakelogError, NotFound
from lakelog.results import WriteResult
from lakelog.spark.batch.table_write import write
from lakelog.spark.installation import installation_of
from lakelog.spark.session.remote import check_not_remote
from lakelog.writes.commit_options import CommitOptions

SaveMode = Literal["error", "ignore", "append", "overwrite"]


def save_as_table(
    df: DataFrame,
    name: str,
    *,
    mode: SaveMode = "error",
    primary_key: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    comment: str = "",
    **commit: Unpack[CommitOptions],
) -> WriteResult | None:
    """Writes rows into a table, which is made with the columns of the DataFrame if there is none.

    A new table has no rows until all of them are committed. If the write fails, it is dropped.

    Args:
        df: The rows.
        name: `database.table`; the database must exist.
        mode: What to do with a table that exists: "error"; "ignore": nothing; "append": add the rows, or replace those
            of their keys; "overwrite": replace all rows by one commit. The table keeps its columns and its history.
        primary_key: Columns of a new table's key; none: an append table.
        partition_by: Its partition columns.
        options: Its options by key. A table that exists keeps its own.
        comment: What it is for.
        **commit: Writer, watermark and so on, as of `write`.

    Returns:
        The result of the write; None: the table exists, and nothing was done.

    Raises:
        AlreadyExists: The table exists, and `mode` is "error".
        InvalidArgument: The table exists with another key or other partition columns; or a column or an argument is not
            possible.
        LakelogError: As of `write`.
    """
    spark = df.sparkSession
    check_not_remote(spark, "lakelog.spark.save_as_table", f"df.write.format('lakelog').option('table', '{name}')")
    if mode not in ("error", "ignore", "append", "overwrite"):
        raise InvalidArgument(
            f"mode={mode!r:.80} is not possible: give 'error', 'ignore', 'append' or 'overwrite'.",
            metadata={"field": "mode"},
        )
    catalog = installation_of(spark).catalog
    keys, partitions = (
        to_texts(primary_key, "primary_key", "columns"),
        to_texts(partition_by, "partition_by", "columns"),
    )
    with contextlib.suppress(NotFound):
        known = catalog.table(name)
        if mode == "error":
            raise AlreadyExists(
                f"Table {name} exists already. Give mode='append' or 'overwrite', or take another name.",
                reason="TABLE_EXISTS",
                metadata={"table": name},
            )
        if mode == "ignore":
            return None
        _check_same("primary_key", keys, known.primary_key, name)
        _check_same("partition_by", partitions, known.partition_by, name)
        return write(df, name, mode=mode, **commit)
    made = catalog.create_table(
        name,
        to_table_schema(df.schema, keys),
        primary_key=keys,
        partition_by=partitions,
        options=to_option_texts({} if options is None else options),
        comment=comment,
    )
    try:
        return write(df, name, **commit)
    except BaseException:
        # If the outcome of the commit is unknown, its rows disappear with the table.
        with contextlib.suppress(LakelogError):
            if catalog.table(name).uuid == made.uuid:
                catalog.drop_table(name)
        raise


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


def _check_same(field: str, given: Sequence[str], known: Sequence[str], name: str) -> None:
    if given and list(given) != list(known):
        shown = f"is {', '.join(known)}" if known else "has none"
        raise InvalidArgument(
            f"{field}={list(given)} does not fit table {name}, which exists already: its own {shown}. Leave {field} "
            "out, or take another name.",
            metadata={"field": field, "table": name},
        )
