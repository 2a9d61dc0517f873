"""Every write names every column (semantics 1.5): what is left out never becomes NULL over what is there unasked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("dt", pa.string()), ("item", pa.string())])
_THERE = {"id": 1, "dt": "a", "item": "tea"}
_LEFT_OUT = pa.table({"id": [1], "dt": ["a"]})
_OF_KINDS = _LEFT_OUT.append_column("_row_kind", pa.array(["+U"]))

Write = Callable[[Any, dict[str, bool]], object]
_WRITES: dict[str, Write] = {
    "append": lambda to, fill: to.append(_LEFT_OUT, **fill),
    "upsert": lambda to, fill: to.upsert(_LEFT_OUT, **fill),
    "write": lambda to, fill: to.write(_OF_KINDS, **fill),
    "overwrite": lambda to, fill: to.overwrite(_LEFT_OUT, **fill),
    "overwrite dynamic": lambda to, fill: to.overwrite(_LEFT_OUT, "dynamic", **fill),
    "overwrite static": lambda to, fill: to.overwrite(_LEFT_OUT.drop_columns(["dt"]), {"dt": "a"}, **fill),
}
_KEYED = ("upsert", "write")
"""Writes into tables with a primary key only."""


def _make(catalog: Catalog, name: str, keyed: bool) -> Table:
    key = ["id", "dt"] if keyed else []
    table = catalog.create_table(name, _SCHEMA, partition_by=["dt"], primary_key=key)
    table.append(pa.Table.from_pylist([_THERE], _SCHEMA))
    return table


def _rows(table: Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return rows


@pytest.mark.parametrize("in_transaction", [False, True], ids=["table", "transaction"])
@pytest.mark.parametrize(
    ("write", "keyed"), [(name, keyed) for name in _WRITES for keyed in (True, False) if keyed or name not in _KEYED]
)
def test_a_write_that_leaves_a_column_out(catalog: Catalog, write: str, keyed: bool, in_transaction: bool) -> None:
    table = _make(catalog, "shop.t", keyed)

    def run(fill: dict[str, bool]) -> None:
        if in_transaction:
            with catalog.transaction() as tx:
                _WRITES[write](tx.table("shop.t"), fill)
        else:
            _WRITES[write](table, fill)

    with pytest.raises(
        InvalidArgument, match="item: expected string, got nothing: add the column, or set fill_missing"
    ):
        run({})
    assert _rows(table) == [_THERE]
    run({"fill_missing": True})
    filled = {**_THERE, "item": None}
    assert _rows(table) == ([_THERE, filled] if (write, keyed) == ("append", False) else [filled])


def test_a_column_that_is_not_null_stays_needed(catalog: Catalog) -> None:
    table = _make(catalog, "shop.t", True)
    with pytest.raises(InvalidArgument, match="id: expected int64 NOT NULL, got nothing: add the column"):
        table.upsert(pa.table({"dt": ["a"], "item": ["x"]}), fill_missing=True)


def test_a_later_piece_that_leaves_a_column_out_refuses_the_whole(catalog: Catalog) -> None:
    table = _make(catalog, "shop.t", True)
    whole = pa.Table.from_pylist([{**_THERE, "id": 2}], _SCHEMA)
    with pytest.raises(InvalidArgument, match="item: expected string, got nothing"):
        table.upsert(iter([whole, _LEFT_OUT]))
    assert _rows(table) == [_THERE]


def test_deletes_need_their_key_only(catalog: Catalog) -> None:
    table = _make(catalog, "shop.t", True)
    table.write(_LEFT_OUT.append_column("_row_kind", pa.array(["-D"])))
    assert _rows(table) == []
    table.upsert(pa.Table.from_pylist([_THERE], _SCHEMA))
    table.delete(_LEFT_OUT)
    assert _rows(table) == []


def test_fill_missing_is_a_flag(catalog: Catalog) -> None:
    table = _make(catalog, "shop.t", True)
    with pytest.raises(InvalidArgument, match="fill_missing"):
        table.upsert(_LEFT_OUT, fill_missing="no")  # type: ignore[arg-type]
