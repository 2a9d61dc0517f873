"""Reads of changes once some have expired: all that is kept, or an error, no silent jump (semantics 3.8, 5.6)."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lakelog.errors import SnapshotExpired
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.command import Command
from tests.support.tables.keyed import make, rows


def changed(table: Table, after: int | None = None, until: int | None = None, *, raw: bool = False) -> list[int]:
    """The snapshots of which something is shown."""
    return sorted(
        set(table.changes(after, until, raw=raw, columns=["v", "_snapshot_id"]).to_arrow()["_snapshot_id"].to_pylist())
    )


def write_and_expire(table: Table) -> None:
    """Snapshots 1 to 6, of which the states of 5 and 6 are kept."""
    for number in range(1, 7):
        table.write(rows(f"+U 1|1|{number}"))
    table.expire_snapshots(older_than=1 << 52, retain_last=2)


def test_changes_begin_with_the_first_that_is_kept(catalog: Catalog) -> None:
    table = make(catalog, "none")
    assert changed(table) == []
    write_and_expire(table)
    assert changed(table) == [5, 6]
    assert changed(table, until=5) == [5]
    assert changed(table, raw=True) == [5, 6]


def test_changelogs_that_live_longer_are_kept(catalog: Catalog) -> None:
    table = make(catalog, "lookup", changelog__num_retained__min="4", changelog__time_retained="0 ms")
    write_and_expire(table)
    assert changed(table) == [3, 4, 5, 6]
    # Rows as they were written stand in data files, which go with the states.
    assert changed(table, raw=True) == [5, 6]


def test_a_position_that_expired_is_an_error_however_it_is_named(catalog: Catalog) -> None:
    table = make(catalog, "none")
    write_and_expire(table)
    for after, until in ((0, None), (3, None), (None, 4), (None, 1)):
        with pytest.raises(SnapshotExpired, match=r"snapshots 5 to 6 (can still be read|are all that is kept)"):
            table.changes(after, until)
    with pytest.raises(SnapshotExpired, match=r"is at snapshot 0 of .*Give after=4 or more, or read the whole table"):
        table.changes(0)
    wanted = r"is at snapshot 3 of .* 5 to 6 are all that is kept\. Begin 'incremental-between' with 4 or more, or"
    for mode in ("delta", "changelog"):
        with pytest.raises(SnapshotExpired, match=wanted):
            table.scan(options={"incremental-between": "3,6", "incremental-between-scan-mode": mode})
    with pytest.raises(SnapshotExpired, match=r"Snapshot 3 of .* can still be read"):
        table.scan(options={"incremental-between": "3,6", "incremental-between-scan-mode": "diff"})


def test_of_an_append_table_the_rows_of_the_snapshots_that_are_kept(catalog: Catalog) -> None:
    table = catalog.create_table("shop.log", pa.schema([("n", pa.int64())]))
    for number in range(1, 5):
        table.append(pa.table({"n": [number]}))
    table.expire_snapshots(older_than=1 << 52, retain_last=2)
    assert table.changes(columns=["n"]).to_arrow()["n"].to_pylist() == [3, 4]


def test_the_command_shows_all_that_is_kept(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    write_and_expire(make(catalog, "none"))
    command = Command(catalog, capsys)
    code, out, _ = command("changes", "shop.t", "-o", "json")
    assert (code, [json.loads(line)["_snapshot_id"] for line in out.splitlines()]) == (0, [5, 5, 6, 6])
    assert command("changes", "shop.t", "--after", "0")[0] == 3
