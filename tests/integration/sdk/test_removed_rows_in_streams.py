"""Streams and rows that a condition deletes: beginnings lack them, changes show history as it was."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.tables.append_compaction import compact_append

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


def rows(*ids: int) -> pa.Table:
    return pa.table([pa.array(ids, pa.int64())], schema=SCHEMA)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Rows 1 to 5 in two commits; then 2 and 4 are deleted; then 6 comes."""
    table = catalog.create_table("shop.events", SCHEMA)
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5))
    table.delete_where("id IN (2, 4)")
    table.append(rows(6))
    return table


def take(table: Table, count: int, scan_mode: str | None = None, **options: Any) -> list[tuple[int, int]]:
    """The snapshot and id of the first rows of a stream."""
    given = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    found: list[tuple[int, int]] = []
    with table.subscribe(scan_mode, options=given) as stream:
        for batch in stream:
            found += [(batch.snapshot_id, each) for each in batch.data.column("id").to_pylist()]
            if len(found) >= count:
                return found
    return found


def test_a_beginning_is_the_state(table: Table) -> None:
    assert take(table, 4, "latest-full") == [(4, 1), (4, 3), (4, 5), (4, 6)]
    # The state of a snapshot is what it was.
    assert take(table, 6, "from-snapshot-full", scan__snapshot_id=2)[:5] == [(2, each) for each in range(1, 6)]
    assert take(table, 4, "from-snapshot-full", scan__snapshot_id=3) == [(3, 1), (3, 3), (3, 5), (4, 6)]


def test_changes_are_rows_as_they_came(table: Table) -> None:
    expected = [(1, 1), (1, 2), (1, 3), (2, 4), (2, 5), (4, 6)]
    assert take(table, 6, "from-snapshot", scan__snapshot_id=1) == expected
    scan = table.changes(0)
    assert scan.to_arrow().column("id").to_pylist() == [1, 2, 3, 4, 5, 6]
    assert (scan.count(), scan.skipped_snapshots) == (6, (3,))
    between = table.scan(options={"incremental-between": "1,4"})
    assert between.to_arrow().column("id").to_pylist() == [4, 5, 6]


def test_an_overwrite_shows_its_new_rows_when_asked_for(catalog: Catalog, table: Table) -> None:
    with catalog.transaction() as tx:
        changing = tx.table("shop.events")
        changing.delete_where("id = 3")
        changing.append(rows(30))
    table.rollback_to(2)
    table.rollback_to(3)
    table.alter(set={"streaming-read-overwrite": "true"})
    changes = table.changes(2, columns=["id", "_snapshot_id"])
    found = sorted((each["_snapshot_id"], each["id"]) for each in changes.to_arrow().to_pylist())
    # 3 only removes. 5 brings 30. 6 brings back what 3 and 5 have removed. 7 is 3 again.
    assert found == [(4, 6), (5, 30), (6, 2), (6, 3), (6, 4)]
    assert changes.count() == 5
    assert take(table, 5, "from-snapshot", scan__snapshot_id=3) == found


def test_a_compaction_changes_no_stream(table: Table) -> None:
    table.alter(set={"streaming-read-overwrite": "true"})
    assert compact_append(table) == ()
    table.append(rows(7))
    assert take(table, 2, "from-snapshot", scan__snapshot_id=4) == [(4, 6), (6, 7)]
    assert take(table, 5, "latest-full") == [(6, each) for each in (1, 3, 5, 6, 7)]
