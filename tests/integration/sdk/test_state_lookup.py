"""Looking rows up by key in the state at a snapshot: what a read of it shows, and what decides keys that are gone."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.merge.uncommitted_overlay import KEY_COLUMN
from lakelog.format.tables.plan import Plan, PlanRequest
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind
from lakelog.reads.state_lookup import StateLookup
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

SCHEMA = pa.schema(
    [
        pa.field("day", pa.date32(), nullable=False),
        pa.field("k", pa.string(), nullable=False),
        ("v", pa.int64()),
        ("w", pa.list_(pa.int64())),
    ]
)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table(
        "shop.orders", SCHEMA, primary_key=["day", "k"], partition_by=["day"], options={"bucket": "2"}
    )


def make_rows(draw: Random, count: int) -> pa.Table:
    keys = [(draw.randrange(3), draw.choice("abcdefgh")) for _ in range(count)]
    values = {
        "day": pa.array([day for day, _ in keys], pa.int32()).cast(pa.date32()),
        "k": [key for _, key in keys],
        "v": [draw.randrange(100) for _ in keys],
        "w": [[draw.randrange(3)] for _ in keys],
    }
    kinds = pa.array([draw.choice(["+I", "+U", "-D"]) for _ in keys])
    return pa.table(values, schema=SCHEMA).append_column(ROW_KIND_COLUMN, kinds)


def to_lookup(catalog: Catalog, table: Table, metastore: Metastore | None = None) -> StateLookup:
    info = table.info
    return StateLookup(
        metastore or catalog.metastore, catalog.open_store(info), info, ["day", "k", "w"], catalog.context.caches
    )


def all_keys() -> pa.Table:
    keys = [(day, key) for day in range(4) for key in "zabcdefgh"]
    days = pa.array([day for day, _ in keys], pa.int32()).cast(pa.date32())
    return pa.table({"day": days, "k": [key for _, key in keys]})


def test_it_finds_what_a_read_shows(catalog: Catalog, table: Table) -> None:
    draw = Random(1)
    lookup = to_lookup(catalog, table)
    assert lookup.find(all_keys(), 0).num_rows == 0
    for number in range(1, 6):
        rows = make_rows(draw, 10)
        table.write(rows)
        found = lookup.find(all_keys(), number)
        assert found.schema.names == [KEY_COLUMN, "day", "k", "w", ROW_KIND_COLUMN, "_commit_timestamp"]
        shown = [row for row in found.to_pylist() if row[ROW_KIND_COLUMN] != RowKind.DELETE]
        wanted = table.scan(columns=["day", "k", "w"]).to_arrow().to_pylist()
        assert sorted((row["day"], row["k"], row["w"]) for row in shown) == sorted(
            (row["day"], row["k"], row["w"]) for row in wanted
        )
        keys, records = lookup.find_written(all_keys(), number)
        written = {(row["day"], row["k"]) for row in rows.to_pylist()}
        assert {(row["day"], row["k"]) for row in records.to_pylist()} == written
        assert len(keys) == len(written)
        by_key = {(row["day"], row["k"]): row for row in found.to_pylist()}
        assert all(by_key[row["day"], row["k"]] == row for row in records.to_pylist())


def test_the_files_of_a_snapshot_are_asked_for_once(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.write(make_rows(Random(2), 20))
    asked: list[PlanRequest] = []
    plan = catalog.metastore.plan

    def count(request: PlanRequest) -> Plan:
        asked.append(request)
        return plan(request)

    monkeypatch.setattr(catalog.metastore, "plan", count)
    lookup = to_lookup(catalog, table)
    first = lookup.find(all_keys(), 1)
    assert lookup.find(all_keys(), 1).equals(first)
    lookup.find_written(all_keys().slice(3), 1)
    assert len(asked) == 1
    table.write(make_rows(Random(3), 20))
    assert not lookup.find(all_keys(), 2).equals(first)
    assert len(asked) == 2
