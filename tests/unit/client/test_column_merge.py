"""Columns that rows bring and a table lacks (semantics 7.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakelog.client.column_merge import merge_columns, plan_merge
from lakelog.errors import InvalidArgument, OutcomeUnknown
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.column_changes import AddColumn, ColumnChange, WidenColumn
from lakelog.sdk.catalog import Catalog

KNOWN = pa.schema(
    [
        ("id", pa.int32()),
        ("Name", pa.string()),
        ("place", pa.struct([("zip", pa.int16())])),
        ("tags", pa.list_(pa.struct([("n", pa.int32())]))),
        ("prices", pa.map_(pa.string(), pa.float32())),
    ]
)

GIVEN: dict[str, tuple[pa.Schema, list[ColumnChange]]] = {
    "the same": (KNOWN, []),
    "fewer": (pa.schema([("id", pa.int32())]), []),
    "narrower": (pa.schema([("id", pa.int16())]), []),
    "losing": (pa.schema([("id", pa.float32()), ("Name", pa.int64())]), []),
    "another case": (pa.schema([("name", pa.string()), ("ID", pa.int64())]), []),
    "kinds of rows": (pa.schema([("_row_kind", pa.string())]), []),
    "no type": (pa.schema([("id", pa.null())]), []),
    "no type of tables": (pa.schema([("id", pa.uint64())]), []),
    "added": (pa.schema([("a", pa.large_string()), ("b", pa.large_binary())]), [
        AddColumn(("a",), pa.string()), AddColumn(("b",), pa.binary())]),
    "wider": (pa.schema([("id", pa.int64())]), [WidenColumn(("id",), pa.int64())]),
    "added inside": (
        pa.schema([("place", pa.struct([("zip", pa.int16()), ("x.y", pa.string())]))]),
        [AddColumn(("place", "x.y"), pa.string())],
    ),
    "wider inside": (
        pa.schema(
            [
                ("place", pa.struct([("zip", pa.int32())])),
                ("tags", pa.list_(pa.struct([("n", pa.int64()), ("m", pa.bool_())]))),
                ("prices", pa.map_(pa.string(), pa.float64())),
            ]
        ),
        [
            WidenColumn(("place", "zip"), pa.int32()),
            WidenColumn(("tags", "element", "n"), pa.int64()),
            AddColumn(("tags", "element", "m"), pa.bool_()),
            WidenColumn(("prices", "value"), pa.float64()),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN)
def test_what_is_missing(catalog: Catalog, name: str) -> None:
    given, changes = GIVEN[name]
    assert plan_merge(KNOWN, given) == changes
    table = catalog.create_table("shop.t", KNOWN)
    merged = merge_columns(catalog.metastore, table.info, given)
    assert plan_merge(merged.schema.arrow, given) == []
    assert merged.schema.schema_id == (1 if changes else 0)
    assert merged.schema.arrow.names[:5] == KNOWN.names


class Racing:
    """A metastore at which another program is always a little faster."""

    def __init__(self, catalog: Catalog, meanwhile: Sequence[Sequence[ColumnChange]], lost: bool = False) -> None:
        self._metastore, self._meanwhile, self._lost = catalog.metastore, list(meanwhile), lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._metastore, name)

    def alter_columns(self, table_uuid: str, *, changes: Sequence[ColumnChange]) -> TableInfo:
        if self._meanwhile:
            self._metastore.alter_columns(table_uuid, changes=self._meanwhile.pop(0))
        altered = self._metastore.alter_columns(table_uuid, changes=changes)
        if self._lost:
            raise OutcomeUnknown("The answer was lost.")
        return altered


def test_two_at_once_change_a_table_once(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", KNOWN)
    given = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.string())])
    others = [[AddColumn("a", pa.string())], [WidenColumn("id", pa.int64())], [AddColumn("c", pa.string())]]
    merged = merge_columns(Racing(catalog, others), table.info, given)  # type: ignore[arg-type]
    assert merged.schema.arrow.names[5:] == ["a", "c", "b"]
    assert merged.schema.schema_id == 4


def test_a_lost_answer_changes_a_table_once(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", KNOWN)
    merged = merge_columns(Racing(catalog, [], lost=True), table.info, pa.schema([("a", pa.string())]))  # type: ignore[arg-type]
    assert merged.schema.schema_id == 1
    assert merged.schema.arrow.names[5:] == ["a"]


def test_a_change_that_is_not_possible_is_said(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", KNOWN, primary_key=["id"], options={"bucket": "2"})
    with pytest.raises(InvalidArgument, match="'a' "):
        merge_columns(catalog.metastore, table.info, pa.schema([("a", pa.duration("s"))]))
    assert catalog.table("shop.t").info.schema.schema_id == 0


def test_a_bucket_key_keeps_its_type(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", KNOWN, primary_key=["id"], options={"bucket": "2"})
    merged = merge_columns(catalog.metastore, table.info, pa.schema([("id", pa.int64()), ("a", pa.string())]))
    assert merged.schema.arrow.names[5:] == ["a"]
    assert merged.schema.arrow.field("id").type == pa.int32()
