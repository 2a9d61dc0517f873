"""A changelog that a compactor makes after the commit is the one that the commit would have made."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases
from tests.support.tables.attaching import make_service

SCHEMA = pa.schema(
    [
        pa.field("pt", pa.int64(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("v", pa.int64()),
        pa.field("seq", pa.int64()),
    ]
)
OPTIONS: list[dict[str, str]] = [
    {},
    {"bucket": "3"},
    {"sequence.field": "seq"},
    {"sequence.field": "seq", "sequence.field.sort-order": "desc", "bucket": "2"},
    {"changelog-producer.row-deduplicate": "true"},
    {"changelog-producer.row-deduplicate": "true", "changelog-producer.row-deduplicate-ignore-fields": "seq"},
    {"ignore-delete": "true"},
    {"merge-engine": "first-row", "ignore-delete": "true", "bucket": "2"},
    # Several runs a bucket and commit.
    {"write-buffer-size": "1 kb"},
]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    # Without compactions by themselves, whose snapshots the two tables would have at different places.
    metastore = in_process(open_store, lambda store: UseCases(store, f"file://{tmp_path}/", planners=()))
    catalog = Catalog(metastore, LocationStores())
    catalog.create_database("shop")
    yield catalog
    metastore.close()


@pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda options: " ".join(f"{k}={v}" for k, v in options.items()) or "-"
)
@pytest.mark.parametrize("seed", range(4))
def test_late_and_early_changelogs_are_the_same(catalog: Catalog, options: dict[str, str], seed: int) -> None:
    draw = random.Random(seed)
    producer = {"changelog-producer": "lookup"}
    in_commit, late = (
        catalog.create_table(
            f"shop.{name}",
            SCHEMA,
            primary_key=["pt", "k"],
            partition_by=["pt"] if seed % 2 else [],
            options=options | producer | more,
        )
        for name, more in (("in_commit", {}), ("late", {"lookup-wait": "false"}))
    )
    for _ in range(25):
        step = draw.random()
        if step < 0.7:
            rows = _draw_rows(draw)
            for table in (in_commit, late):
                table.write(rows)
        elif step < 0.8:
            rows = _draw_rows(draw).drop_columns(["_row_kind"])
            for table in (in_commit, late):
                table.overwrite(rows)
        elif step < 0.9:
            option = draw.choice(["lookup-wait", "write-only"])
            late.alter(set={option: draw.choice(["true", "false"])})
        else:
            assert make_service(catalog.metastore).run() == 0
    assert make_service(catalog.metastore).run() == 0
    assert _changes(late) == _changes(in_commit)
    assert catalog.metastore.list_snapshots(late.uuid).first_pending_snapshot_id == 0


def _draw_rows(draw: random.Random) -> pa.Table:
    count = draw.choice((1, 3, 10, 60))
    columns: dict[str, list[Any]] = {
        "pt": [draw.randrange(2) for _ in range(count)],
        "k": [draw.randrange(12) for _ in range(count)],
        "v": [draw.choice([None, 1, 2, 3]) for _ in range(count)],
        "seq": [draw.choice([None, *range(6)]) for _ in range(count)],
        "_row_kind": [draw.choice(["+I", "+I", "+U", "-D", "-U"]) for _ in range(count)],
    }
    return pa.table(columns, schema=SCHEMA.append(pa.field("_row_kind", pa.string())))


def _changes(table: Table) -> dict[tuple[int, int, int], list[tuple[Any, ...]]]:
    """The changes of each snapshot and key in their order; across keys it is free."""
    found: dict[tuple[int, int, int], list[tuple[Any, ...]]] = {}
    for row in table.changes().to_arrow().to_pylist():
        key = (row["_snapshot_id"], row["pt"], row["k"])
        found.setdefault(key, []).append((row["_row_kind"], row["v"], row["seq"]))
    return found
