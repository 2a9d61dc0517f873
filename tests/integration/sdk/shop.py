"""Tables of a small shop, for the tests of the SDK."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

ORDERS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("price", pa.decimal128(9, 2)),
    ]
)
NUMBERS = pa.schema([pa.field("n", pa.int64()), pa.field("t", pa.string())])


def make_orders(catalog: Catalog, **options: str) -> Table:
    return catalog.create_table("shop.orders", ORDERS, primary_key=["id"], options=options)


def make_log(catalog: Catalog, **options: str) -> Table:
    return catalog.create_table("shop.log", NUMBERS, options=options)


def orders(*rows: tuple[int, str | None, str | None]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([row[0] for row in rows], pa.int64()),
            "name": pa.array([row[1] for row in rows], pa.string()),
            "price": pa.array([None if row[2] is None else Decimal(row[2]) for row in rows], pa.decimal128(9, 2)),
        }
    )


def names(table: Table, **scan: object) -> dict[int, str | None]:
    rows = table.scan(**scan).to_arrow().to_pylist()  # type: ignore[arg-type]
    found = {row["id"]: row["name"] for row in rows}
    assert len(found) == len(rows), "a key appears twice"
    return found
