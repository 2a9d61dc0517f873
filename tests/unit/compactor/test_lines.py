"""What the compactor's log says about work that went well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from lakelog.clock import SystemClock
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import InProcessMetastore, in_process
from metastore.use_cases import UseCases
from tests.support.tables.attaching import attach_all

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("item", pa.string())])


@pytest.fixture
def metastore(tmp_path: Path) -> Iterator[InProcessMetastore]:
    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    service = in_process(open_store, lambda store: UseCases(store, f"file://{tmp_path}/warehouse/"))
    service.stop_background()
    yield service
    service.close()


def test_a_compaction_names_its_table_and_snapshot(metastore: InProcessMetastore) -> None:
    catalog = Catalog(metastore, LocationStores())
    catalog.create_database("shop")
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "2"}
    table = catalog.create_table("shop.orders", SCHEMA, primary_key=["id"], options=options)
    for item in ("tea", "cup"):
        table.upsert(pa.table({"id": range(10), "item": [item] * 10}, SCHEMA))
    with capture_logs() as lines:
        metastore.run(metastore.use_cases.due_work.step())
        attach_all(metastore)
    (line,) = [each for each in lines if each["event"] == "compacted"]
    assert (line["table"], line["bucket"], line["snapshot"], line["log_level"]) == ("shop.orders", 0, 3, "info")
    assert (line["rewritten_files"], line["written_files"]) == (2, 1)
