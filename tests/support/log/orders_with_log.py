"""Tables of orders with a log, of all kinds, and random rows for them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from random import Random

import pyarrow as pa

from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

SCHEMA = pa.schema(
    [
        pa.field("day", pa.int64(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        ("v", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(12, 2)),
    ]
)

LOGGED = {"log.system": "kafka"}


def make(catalog: Catalog, keyed: bool, options: Mapping[str, str]) -> Table:
    return catalog.create_table(
        "shop.orders",
        schema=SCHEMA,
        primary_key=["day", "k"] if keyed else [],
        partition_by=["day"],
        options={**LOGGED, **options},
    )


def random_rows(draw: Random, count: int, kinds: str | None) -> pa.Table:
    rows = {
        "day": [draw.randrange(2) for _ in range(count)],
        "k": [draw.randrange(12) for _ in range(count)],
        "v": [draw.choice([None, 1, 2, 1 << 60]) for _ in range(count)],
        "name": [draw.choice([None, "", 'ö"\\\n', "x"]) for _ in range(count)],
        "price": [None if draw.random() < 0.1 else Decimal(draw.randrange(10**6)) / 100 for _ in range(count)],
    }
    table = pa.table(rows, schema=SCHEMA)
    if kinds is None:
        return table
    return table.append_column("_row_kind", pa.array([draw.choice(kinds.split()) for _ in range(count)]))


def find_newest(table: Table) -> int:
    newest: int = max(table.snapshots().column("id").to_pylist())
    return newest


def fill(table: Table, keyed: bool, seed: int = 1) -> int:
    """Writes, an overwrite and an empty commit among it; returns the newest snapshot."""
    draw = Random(seed)
    kinds = "+I +I +U -D" if keyed else "+I"
    for _ in range(4):
        table.write(random_rows(draw, 30, kinds))
    table.overwrite(random_rows(draw, 5, None), partition="dynamic")
    for _ in range(3):
        table.write(random_rows(draw, 30, kinds))
    return find_newest(table)


TABLES = {
    "append": (False, {}),
    "append in buckets": (False, {"bucket": "3", "bucket-key": "k"}),
    "append json": (False, {"log.format": "json"}),
    "keyed": (True, {"bucket": "2"}),
    "keyed all": (True, {"bucket": "2", "log.changelog-mode": "all"}),
    "keyed json": (True, {"log.format": "json"}),
    "sequence": (True, {"sequence.field": "v"}),
    "lookup": (True, {"changelog-producer": "lookup"}),
    "lookup without equal": (
        True,
        {"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true", "bucket": "2"},
    ),
    "lookup changelog": (True, {"changelog-producer": "lookup", "log.content": "changelog"}),
    "lookup changelog all": (
        True,
        {"changelog-producer": "lookup", "log.content": "changelog", "log.changelog-mode": "all"},
    ),
    "input all": (True, {"changelog-producer": "input", "log.changelog-mode": "all"}),
    "input upsert": (True, {"changelog-producer": "input"}),
}
