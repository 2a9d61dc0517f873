"""A table's log over changes of its columns: what is published, and what streams read of it (semantics 7.6, 4)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from lakelog import AddColumn, DropColumn, MoveColumn, RenameColumn, WidenColumn
from lakelog.format.types.column_changes import ColumnChange
from lakelog.log.memory import MemoryCluster
from lakelog.reads.streams.log import table as log_table
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.support.log.logging_tables import HandPublisher, LogUses, open_metastore, read_all, to_rows, to_schemas
from tests.support.log.orders_with_log import TABLES, find_newest, make, random_rows

NOTHING_LOST: list[ColumnChange] = [
    RenameColumn("v", "amount"),
    AddColumn("note", pa.string(), default="-", after="day"),
    MoveColumn("price", first=True),
    RenameColumn("name", "v"),
]


class NoFiles:
    """Stands in for reading files, which is not to happen."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("files were read")


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def metastore(cluster: MemoryCluster, tmp_path: Path) -> Iterator[InProcessMetastore]:
    service = open_metastore(tmp_path / "warehouse", cluster)
    yield service
    service.close()


@pytest.fixture
def uses(cluster: MemoryCluster) -> LogUses:
    return LogUses(cluster)


@pytest.fixture
def catalog(metastore: InProcessMetastore, uses: LogUses) -> Catalog:
    catalog = Catalog(metastore, LocationStores(), open_log=uses)
    catalog.create_database("shop")
    return catalog


def write(table: Table, draw: Random, keyed: bool, times: int) -> None:
    for _ in range(times):
        rows = random_rows(draw, 20, "+I +I +U -D" if keyed else "+I")
        by_id = {int(field.metadata[b"PARQUET:field_id"]): field.name for field in table.info.schema.arrow}
        names = [by_id[place + 1] for place in range(5)]
        table.write(rows.rename_columns([*names, *rows.column_names[5:]]), fill_missing=True)


@pytest.mark.parametrize("log_format", ["debezium-json", "json", "avro"])
@pytest.mark.parametrize(("keyed", "options"), TABLES.values(), ids=TABLES)
def test_a_running_stream_of_a_log_shows_what_files_show(
    catalog: Catalog,
    metastore: InProcessMetastore,
    cluster: MemoryCluster,
    uses: LogUses,
    keyed: bool,
    options: Mapping[str, str],
    log_format: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = make(catalog, keyed, {**options, "log.format": log_format})
    publisher = HandPublisher(metastore, cluster, table)
    draw = Random(7)
    write(table, draw, keyed, 2)
    publisher.publish()
    streams = {
        mode: table.subscribe("from-snapshot", options={"scan.snapshot-id": 1, "streaming-read-mode": mode})
        for mode in ("file", "log")
    }
    try:
        found = {mode: read_all(stream, 2) for mode, stream in streams.items()}
        table.alter(columns=NOTHING_LOST)
        write(table, draw, keyed, 3)
        publisher.publish()
        newest = find_newest(table)
        if not keyed:
            # So a log that is read as if it had no records would be noticed.
            monkeypatch.setattr(log_table.LogStreamTable, "_read_files_of", NoFiles())
        for mode, stream in streams.items():
            found[mode] += read_all(stream, newest)
    finally:
        for stream in streams.values():
            stream.close()
    assert to_rows(found["log"]) == to_rows(found["file"])
    assert to_schemas(found["log"]) == to_schemas(found["file"])
    assert {name for batch in found["log"] for name in batch.data.schema.names} >= {"day", "k", "v", "name", "price"}
    assert "amount" not in found["log"][-1].data.schema.names


def values(metastore: InProcessMetastore, cluster: MemoryCluster, table: Table) -> list[Any]:
    (partition,) = cluster.get_topic(metastore.get_log(table.uuid).topic).partitions
    records, _ = partition.read(0, 1000)
    return [json.loads(value) for value in records.values.to_pylist()]


def test_records_have_the_columns_of_their_snapshot(
    catalog: Catalog, metastore: InProcessMetastore, cluster: MemoryCluster
) -> None:
    table = catalog.create_table(
        "shop.t",
        pa.schema([pa.field("id", pa.int32()), pa.field("name", pa.string()), pa.field("gone", pa.string())]),
        options={"log.system": "kafka", "log.format": "json"},
    )
    publisher = HandPublisher(metastore, cluster, table)
    table.append(pa.table({"id": pa.array([1], pa.int32()), "name": ["a"], "gone": ["x"]}))
    with catalog.transaction() as tx:
        # Written with the columns of before, and committed under the new ones.
        tx.table("shop.t").append(pa.table({"id": pa.array([2], pa.int32()), "name": ["b"], "gone": ["x"]}))
        table.alter(
            columns=[
                RenameColumn("name", "title"),
                AddColumn("note", pa.string(), default="-"),
                WidenColumn("id", pa.int64()),
            ]
        )
    table.alter(columns=[DropColumn("gone")])
    table.append(pa.table({"id": [3], "title": ["c"], "note": ["n"]}))
    # Published when all of it has happened.
    publisher.publish()
    assert values(metastore, cluster, table) == [
        {"id": 1, "name": "a", "gone": "x"},
        {"id": 2, "title": "b", "gone": "x", "note": "-"},
        {"id": 3, "title": "c", "note": "n"},
    ]
