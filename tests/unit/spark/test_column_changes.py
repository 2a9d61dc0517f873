"""Changes of columns, from Spark's to lakelog's."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import InvalidArgument
from lakelog.spark.java.column_changes import to_column_change


def test_changes_of_spark() -> None:
    place = {"first": False, "after": "k"}
    added = {"kind": "AddColumn", "column": ["s", "a.b"], "type": '"timestamp"', "nullable": True, "comment": None}
    moment = pa.timestamp("us", tz="UTC")
    assert to_column_change(added | place) == lakelog.AddColumn(["s", "a.b"], moment, True, "", after="k")
    assert to_column_change({"kind": "UpdateColumnPosition", "column": ["v"]} | place) == lakelog.MoveColumn(
        ["v"], after="k"
    )
    wide = {"kind": "UpdateColumnType", "column": ["v"], "type": '"decimal(9,2)"'}
    assert to_column_change(wide) == lakelog.WidenColumn(["v"], pa.decimal128(9, 2))
    allowed = {"kind": "UpdateColumnNullability", "column": ["v"], "nullable": True}
    assert to_column_change(allowed) == lakelog.AllowNull(["v"])


def test_a_default_is_not_lost_in_silence() -> None:
    added = {"kind": "AddColumn", "column": ["v"], "type": '"integer"', "nullable": True, "comment": None}
    with pytest.raises(InvalidArgument, match=r"lakelog\.spark\.sql\(.*ADD COLUMN v \.\.\. DEFAULT 5'"):
        to_column_change(added | {"default": "5", "first": False, "after": None})


@pytest.mark.parametrize("kind", ["UpdateColumnNullability", "UpdateColumnDefaultValue"])
def test_what_lakelog_has_not(kind: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"Column s\.a cannot be changed so \({kind}\)"):
        to_column_change({"kind": kind, "column": ["s", "a"], "nullable": False})
