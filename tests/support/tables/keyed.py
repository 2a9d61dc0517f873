"""A small keyed table, its rows as text, and a consumer that sees nothing but its changelog."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

SCHEMA = pa.schema(
    [pa.field("pt", pa.int64(), nullable=False), pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())]
)


def make(catalog: Catalog, producer: str, /, name: str = "shop.t", **options: str) -> Table:
    more = {key.replace("_", "-").replace("--", "."): value for key, value in options.items()}
    return catalog.create_table(
        name,
        SCHEMA,
        primary_key=["pt", "k"],
        partition_by=["pt"],
        options={"changelog-producer": producer, **more},
    )


def rows(*lines: str) -> pa.Table:
    """Rows from `+I 1|10|100`."""
    kinds = [line[:2] for line in lines]
    values = [[None if part == "-" else int(part) for part in line[3:].split("|")] for line in lines]
    columns = [pa.array([row[place] for row in values], pa.int64()) for place in range(3)]
    return pa.table([*columns, kinds], names=["pt", "k", "v", "_row_kind"])


def emitted(table: Table, after: int, until: int | None = None, **more: Any) -> list[str]:
    found = table.changes(after, until, **more).to_arrow().to_pylist()
    return [f"{row['_row_kind']} {row['pt']}|{row['k']}|{'-' if row['v'] is None else row['v']}" for row in found]


def replayed(table: Table) -> dict[tuple[int, int], int]:
    """The table as a consumer knows it who saw nothing but its changelog, and who notices what contradicts it."""
    known: dict[tuple[int, int], int] = {}
    for row in table.changes().to_arrow().to_pylist():
        key = (row["pt"], row["k"])
        if row["_row_kind"] in ("-U", "-D"):
            assert known.pop(key, "nothing") == row["v"], f"{row} takes away what was not there"
        else:
            assert key not in known, f"{row} adds what is there already"
            known[key] = row["v"]
    return known


def shown(table: Table) -> dict[tuple[int, int], int]:
    return {(row["pt"], row["k"]): row["v"] for row in table.scan().to_arrow().to_pylist()}


def changelog_paths(table: Table, metastore: Any) -> list[str]:
    last = metastore.list_snapshots(table.uuid).latest_snapshot_id
    plan = metastore.plan(PlanRequest(table.uuid, InRange(0, last), changelog=True))
    return sorted(plan.files.column("path").to_pylist())
