"""A changelog that a compactor makes after the commit is the one that the commit would have made."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.clock import SystemClock
from lakelog.format.tables.plan import InRange, PlanRequest
from lakelog.format.types.column_changes import AddColumn, ColumnChange, DropColumn, RenameColumn, WidenColumn
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from lakelog.writes.changelog import late_changelog
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


@pytest.mark.parametrize("seed", range(8))
def test_late_changelogs_have_the_columns_of_their_snapshots(catalog: Catalog, seed: int) -> None:
    in_commit, late = _alter_in_between(catalog, seed)
    assert late == in_commit


def test_control_with_the_columns_of_now_they_have_others(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_changelog, "_find_version", lambda metastore, info, schema_id: info)
    in_commit, late = _alter_in_between(catalog, 0)
    assert late != in_commit


def _alter_in_between(catalog: Catalog, seed: int) -> list[list[str]]:
    """Writes to two tables, one with late changelogs, alters both alike, and returns what changelog files have."""
    draw = random.Random(seed)
    options = draw.choice(OPTIONS[:5]) | {"changelog-producer": "lookup"}
    names = [
        catalog.create_table(f"shop.{name}", SCHEMA, primary_key=["pt", "k"], options=options | more).name
        for name, more in (("in_commit", {}), ("late", {"lookup-wait": "false"}))
    ]
    for number in range(25):
        tables = [catalog.table(name) for name in names]
        schema, step = tables[0].info.schema.arrow, draw.random()
        if step < 0.65:
            rows = _draw_rows(draw)
            for field in schema:
                if field.name not in rows.schema.names:
                    rows = rows.append_column(field.name, pa.array([number] * len(rows), field.type))
            rows = rows.select([*schema.names, "_row_kind"])
            for table in tables:
                table.write(rows)
        elif step < 0.9:
            change = _draw_alteration(draw, schema, number)
            for table in tables:
                table.alter(columns=[change])
        else:
            assert make_service(catalog.metastore).run() == 0
    assert make_service(catalog.metastore).run() == 0
    return [_changelog_rows(catalog.table(name)) for name in names]


def _draw_alteration(draw: random.Random, schema: pa.Schema, number: int) -> ColumnChange:
    added = [field for field in schema if field.name not in SCHEMA.names]
    narrow = [field.name for field in added if field.type == pa.int32()]
    changes: list[ColumnChange] = [AddColumn(f"a{number}", pa.int32(), default=draw.choice([None, 7]))]
    changes += [RenameColumn(field.name, f"r{number}") for field in added]
    changes += [DropColumn(field.name) for field in added]
    changes += [WidenColumn(name, pa.int64()) for name in narrow]
    return draw.choice(changes)


def _changelog_rows(table: Table) -> list[str]:
    """The rows of each snapshot's changelog files with the columns that are stored, sorted."""
    metastore = table._context.metastore
    last = metastore.list_snapshots(table.uuid).latest_snapshot_id
    plan = metastore.plan(PlanRequest(table.uuid, InRange(0, last), changelog=True))
    paths = zip(plan.files["added_snapshot"].to_pylist(), plan.files["path"].to_pylist(), strict=True)
    folder = Path(table.info.location.removeprefix("file://"))
    return sorted(f"{snapshot} {row}" for snapshot, path in paths for row in pq.read_table(folder / path).to_pylist())


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
