"""Changes of columns, from Spark's to lakelog's. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_type

from lakelog.errors import InvalidArgument
from lakelog.format.types.column_changes import (
    AddColumn,
    AllowNull,
    ColumnChange,
    CommentColumn,
    DropColumn,
    MoveColumn,
    RenameColumn,
    WidenColumn,
)


def to_column_change(given: Mapping[str, Any]) -> ColumnChange:
    """The change of lakelog for one that `Catalog.java` describes.

    Raises:
        InvalidArgument: lakelog has no such change.
    """
    path = given["column"]
    match given["kind"]:
        case "AddColumn":
            if given.get("default") is not None:
                name = path[-1]
                raise InvalidArgument(
                    f"Column {name} cannot get a default through Spark. Use lakelog.spark.sql(spark, 'ALTER TABLE ... "
                    f"ADD COLUMN {name} ... DEFAULT {given['default']:.80}'), or leave DEFAULT out.",
                    metadata={"column": ".".join(path)},
                )
            comment, first, after = given["comment"] or "", given["first"], given["after"]
            return AddColumn(path, _to_type(given["type"]), given["nullable"], comment, first=first, after=after)
        case "DeleteColumn":
            return DropColumn(path)
        case "RenameColumn":
            return RenameColumn(path, given["name"])
        case "UpdateColumnType":
            return WidenColumn(path, _to_type(given["type"]))
        case "UpdateColumnNullability" if given["nullable"]:
            return AllowNull(path)
        case "UpdateColumnComment":
            return CommentColumn(path, given["comment"] or "")
        case "UpdateColumnPosition":
            return MoveColumn(path, first=given["first"], after=given["after"])
    raise InvalidArgument(
        f"Column {'.'.join(path)} cannot be changed so ({given['kind']}): columns are added, dropped, renamed, moved "
        "and widened, take NULL from then on, and get comments.",
        metadata={"column": ".".join(path)},
    )


def _to_type(text: str) -> pa.DataType:
    return to_arrow_type(st._parse_datatype_json_string(text), timezone="UTC")
