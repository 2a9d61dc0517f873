"""What a table says of itself, as a plain consumer's recording is held against it."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.tables.snapshot import LogContent, Snapshot
from lakelog.sdk.catalog import Catalog
from lakelog.system_tables.metadata.listings import list_snapshots
from lakelog.testing.log_recording import load_table_side

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])


@pytest.fixture(autouse=True)
def all_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """As though the table had a log; compactions and overwrites bring nothing to it."""

    def list_logged(metastore: Metastore, table_uuid: str, limit: int | None) -> list[Snapshot]:
        return [
            dataclasses.replace(each, log=LogContent.DATA if each.kind.value == "APPEND" else LogContent.NONE)
            for each in list_snapshots(metastore, table_uuid, limit)
        ]

    monkeypatch.setattr("lakelog.testing.log_recording.list_snapshots", list_logged)


def test_a_keyed_table_returns_snapshots_rows_and_state(catalog: Catalog) -> None:
    catalog.create_database("lab")
    table = catalog.create_table("lab.keyed", SCHEMA, primary_key=["k"], options={"bucket": "2"})
    table.upsert(pa.table({"k": [1, 2], "v": ["a", "b"]}, schema=SCHEMA))
    table.delete(pa.table({"k": [2]}))
    table.upsert(pa.table({"k": [3, 3, 4], "v": ["c", "d", "e"]}, schema=SCHEMA))
    side = load_table_side(table, row=["v"], whole_rows=1)
    assert side.snapshots["snapshot"].to_pylist() == [1, 2, 3]
    assert side.snapshots["is_whole"].to_pylist() == [False, True, False]
    assert side.snapshots["committed_at_ms"].to_pylist() == sorted(side.snapshots["committed_at_ms"].to_pylist())
    assert len(set(side.snapshots["uuid"].to_pylist())) == 3
    rows = {tuple(row.values()) for row in side.rows.to_pylist()}
    assert rows == {
        (1, "+I", "1", "a"),
        (1, "+I", "2", "b"),
        (2, "-D", "2", None),
        (3, "+I", "3", "d"),
        (3, "+I", "4", "e"),
    }
    assert {tuple(row.values()) for row in side.state.to_pylist()} == {("1", "a"), ("3", "d"), ("4", "e")}


def test_an_append_table_has_no_keys(catalog: Catalog) -> None:
    catalog.create_database("lab")
    table = catalog.create_table("lab.log", SCHEMA)
    table.append(pa.table({"k": [1, 1], "v": ["a", "a"]}, schema=SCHEMA))
    table.overwrite(pa.table({"k": [2], "v": ["b"]}, schema=SCHEMA))
    side = load_table_side(table, row=["k", "v"], whole_rows=1000)
    assert side.rows.to_pylist() == [{"snapshot": 1, "kind": "+I", "key": None, "row": "1|a"}] * 2
    assert side.state.to_pylist() == [{"key": None, "row": "2|b"}]
