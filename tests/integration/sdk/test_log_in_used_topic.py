"""A log whose topic has records already: of a table that was dropped, or of a history that was set back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import HistoryDiverged
from lakelog.log.memory import MemoryCluster, MemoryLog
from lakelog.log.records import LogPosition, LogSnapshot
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.spark.stream.log_splits import find_log_range
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.support.log.logging_tables import HandPublisher, open_metastore, read_all, to_rows
from tests.support.log.records import make_records

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def metastore(cluster: MemoryCluster, tmp_path: Path) -> Iterator[InProcessMetastore]:
    service = open_metastore(tmp_path / "warehouse", cluster)
    yield service
    service.close()


@pytest.fixture
def catalog(metastore: InProcessMetastore, cluster: MemoryCluster) -> Catalog:
    catalog = Catalog(metastore, LocationStores(), open_log=lambda options: MemoryLog(cluster))
    catalog.create_database("shop")
    return catalog


def make(catalog: Catalog, name: str) -> Table:
    return catalog.create_table(
        name, schema=SCHEMA, options={"log.system": "kafka", "kafka.topic": "changes", "streaming-read-mode": "log"}
    )


def append(table: Table, *values: int) -> None:
    for value in values:
        table.append(pa.table({"id": [value], "v": [value]}, schema=SCHEMA))


def read(table: Table, first: int, newest: int) -> list[tuple[object, ...]]:
    # Said by the reader, so that files are no way out.
    options = {"scan.snapshot-id": str(first), "streaming-read-mode": "log"}
    with table.subscribe(scan_mode="from-snapshot", options=options) as stream:
        return to_rows(read_all(stream, newest))


def send_forgotten(cluster: MemoryCluster, *snapshot_ids: int) -> None:
    producer = MemoryLog(cluster).open_producer("changes", "forgotten", "forgotten")
    producer.start()
    for snapshot_id in snapshot_ids:
        forgotten = LogSnapshot(snapshot_id, "f" * 32)
        producer.begin()
        producer.send(make_records(0, 0, 2), forgotten)
        producer.commit(LogPosition(snapshot_id, forgotten.snapshot_uuid))
    producer.close()


def test_a_table_recreated_has_its_log_in_the_topic_of_the_old_one(
    catalog: Catalog, metastore: InProcessMetastore, cluster: MemoryCluster
) -> None:
    old = make(catalog, "shop.orders")
    publisher = HandPublisher(metastore, cluster, old)
    append(old, 1, 2, 3)
    publisher.publish()
    publisher.close()
    catalog.drop_table("shop.orders")
    new = make(catalog, "shop.orders")
    for value in (11, 12):
        # Each time a fresh start, which looks at what is there.
        append(new, value)
        publisher = HandPublisher(metastore, cluster, new)
        publisher.publish()
        publisher.close()
    assert read(new, 1, 2) == [(1, 11, 11), (2, 12, 12)]
    # What Spark's tasks read; before it stand three records of the old table, and the end of their transaction.
    planned = find_log_range(metastore, new.uuid, 0, 2)
    assert planned is not None
    assert (planned.starts, planned.ends) == ((4,), (7,))


def test_a_log_restarted_goes_on_after_records_of_a_history_that_was_set_back(
    catalog: Catalog, metastore: InProcessMetastore, cluster: MemoryCluster
) -> None:
    table = make(catalog, "shop.orders")
    append(table, 1, 2)
    # Published, and then forgotten by the metastore, whose next snapshots get the same numbers.
    send_forgotten(cluster, 3, 4)
    publisher = HandPublisher(metastore, cluster, table)
    with pytest.raises(HistoryDiverged, match="lakelog log restart"):
        publisher.publish()
    publisher.close()
    metastore.restart_log(table.uuid)
    append(table, 3, 4, 5)
    publisher = HandPublisher(metastore, cluster, table)
    publisher.publish()
    publisher.close()
    assert read(table, 3, 5) == [(3, 3, 3), (4, 4, 4), (5, 5, 5)]
