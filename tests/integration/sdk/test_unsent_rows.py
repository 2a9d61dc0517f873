"""Rows that could not be sent before their commit are in the log all the same, since nobody takes them for sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.log.memory import Fault, MemoryCluster, MemoryLog, Step
from lakelog.log.memory.producing import MemoryUncommittedSender
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from lakelog.writes.uncommitted_sending import UncommittedChannel
from metastore.testing import InProcessMetastore
from tests.support.log.logging_tables import HandPublisher, open_metastore

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.int64())])
OPTIONS = {"log.system": "kafka", "log.consistency": "eventual", "bucket": "2", "log.format": "json"}
KEYS = list(range(8))


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def metastore(cluster: MemoryCluster, tmp_path: Path) -> Iterator[InProcessMetastore]:
    service = open_metastore(tmp_path / "warehouse", cluster)
    yield service
    service.close()


def leave_out(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves protections out."""
    # Whatever became of records: as many as were taken.
    monkeypatch.setattr(MemoryUncommittedSender, "flush", lambda self, timeout_s: dict(self._ends))
    # A failure ends the connection; without that what was sent later would be all that is known of.
    monkeypatch.setattr(UncommittedChannel, "_fail", lambda self, error: None)
    if what == "answers and failures":
        flush = UncommittedChannel._flush
        monkeypatch.setattr(UncommittedChannel, "_flush", lambda self, failures: flush(self, self.failures))
    else:
        assert what == "answers"


@pytest.mark.parametrize(
    ("fault", "off"),
    [
        (Fault.REFUSED, ""),
        (Fault.REFUSED, "answers"),
        (Fault.TOO_LARGE, ""),
        (Fault.TOO_LARGE, "answers and failures"),
    ],
)
def test_what_one_partition_did_not_take_is_published(
    cluster: MemoryCluster, metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch, fault: Fault, off: str
) -> None:
    if off:
        leave_out(off, monkeypatch)
    catalog = Catalog(metastore, LocationStores(), open_log=lambda options: MemoryLog(cluster))
    catalog.create_database("shop")
    table = catalog.create_table("shop.orders", SCHEMA, primary_key=["k"], options=OPTIONS)
    cluster.script(Step.SEND, fault)
    with catalog.transaction() as tx:
        # Of the first rows, or of the first of two buckets, some are lost.
        tx.table("shop.orders").upsert(pa.table({"k": KEYS[:4], "v": [1] * 4}))
        tx.table("shop.orders").upsert(pa.table({"k": KEYS[4:], "v": [1] * 4}))
    publisher = HandPublisher(metastore, cluster, table)
    publisher.publish()
    publisher.close()
    reader = MemoryLog(cluster).open_reader(metastore.get_log(table.uuid).topic)
    reader.assign({0: 0, 1: 0})
    found = {json.loads(key)["k"] for key in reader.fetch(1000, 0).keys.to_pylist()}
    assert found < set(KEYS) if off else found == set(KEYS)
