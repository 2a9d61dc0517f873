"""Tables on S3 with faults: which work goes on, and what is left of failed writes."""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from lakelog.errors import Unavailable
from lakelog.format.jobs.job import COMPACT, Job, JobState
from lakelog.format.retention.table_files import OrphanReason
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects import s3_keys
from lakelog.storage.objects.calls import CALLS
from lakelog.storage.objects.store import S3Settings
from lakelog.storage.objects.stores import LocationStores
from metastore.use_cases import PLANNERS
from tests.integration.s3.tables import open_catalog
from tests.support.s3.faults import Lost, Refused, Rule, Silent
from tests.support.s3.proxy import S3Proxy
from tests.support.tables.attaching import attach_all

SCHEMA = pa.schema([pa.field("id", pa.int64())])
KEYED = pa.schema([pa.field("id", pa.int64(), nullable=False)])


@dataclass(frozen=True)
class Lake:
    """A catalog over a proxy."""

    catalog: Catalog
    proxy: S3Proxy
    stores: LocationStores
    impatient_stores: LocationStores


@pytest.fixture
def lake(s3_settings: S3Settings) -> Iterator[Lake]:
    assert s3_settings.endpoint is not None
    with S3Proxy(s3_settings.endpoint) as proxy:
        settings = dataclasses.replace(s3_settings, endpoint=proxy.endpoint, attempts=2, timeout_s=2)
        with open_catalog(settings, f"s3://lake/{uuid.uuid4().hex}/", PLANNERS) as catalog:
            impatient = dataclasses.replace(settings, timeout_s=1)
            yield Lake(catalog, proxy, LocationStores(settings), LocationStores(impatient))


def test_a_store_that_is_silent_about_one_table_delays_no_other_for_long(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, other = (
        lake.catalog.create_table(f"shop.{name}", KEYED, primary_key=["id"], options={"bucket": "1"}) for name in "ab"
    )
    for table in (silent, other):
        for number in range(8):
            table.upsert(pa.table([[number]], schema=KEYED))
    while len(_compactions(lake)) < 2:
        time.sleep(0.05)
    lake.proxy.strike(Rule(Silent(), "GET", f"{silent.uuid}/data"))
    attach_all(lake.catalog.metastore, stores=lake.impatient_stores)
    assert lake.proxy.effects[Silent]
    jobs = _compactions(lake)
    assert jobs[other.uuid].state is JobState.DONE
    assert jobs[silent.uuid].state is not JobState.DONE
    assert "in time" in jobs[silent.uuid].reason
    assert other.files().num_rows < silent.files().num_rows
    with pytest.raises(Unavailable, match="in time"):
        silent.scan().to_arrow()
    assert sorted(other.scan().to_arrow()["id"].to_pylist()) == list(range(8))
    # Control: pyarrow makes no further file system, as for a table of its own, while a request is running.
    assert CALLS.left
    monkeypatch.setattr(s3_keys, "open_filesystem", s3_keys.open_filesystem.__wrapped__)
    with pytest.raises(Unavailable, match="in time"):
        lake.stores.open(other.location).size(other.files()["path"][0].as_py())
    monkeypatch.undo()
    lake.proxy.heal()
    assert sorted(silent.scan().to_arrow()["id"].to_pylist()) == list(range(8))
    assert CALLS.left < 32


def _compactions(lake: Lake) -> dict[str, Job]:
    """The compactions by table."""
    return {job.table_uuid: job for job in lake.catalog.metastore.list_jobs([]) if job.kind == COMPACT}


@pytest.mark.parametrize("fault", [Lost(late_s=3600), Refused(is_done=True)], ids=["late", "error after the work"])
def test_the_file_of_a_write_that_failed_is_found_and_deleted(lake: Lake, fault: Lost | Refused) -> None:
    table = lake.catalog.create_table("shop.t", SCHEMA)
    table.append(pa.table([[1]], schema=SCHEMA))
    # The writer cannot find out that its file is there, and cannot delete it.
    lake.proxy.strike(Rule(fault, "PUT", "parquet"), Rule(Refused(), "HEAD DELETE", "parquet", first=2))
    with pytest.raises(Unavailable, match="parquet"):
        table.append(pa.table([[2]], schema=SCHEMA))
    assert lake.proxy.effects[type(fault)]
    lake.proxy.heal()
    assert table.scan().to_arrow()["id"].to_pylist() == [1]
    found = table.check_files()
    assert [(each.reason, each.files) for each in found.orphans] == [(OrphanReason.ABORTED, 1)]
    cleaned = table.check_files(repair=True, older_than=dt.timedelta(0))
    assert cleaned.deleted_files == 1
    assert table.check_files().orphan_files == 0
    assert table.scan().to_arrow()["id"].to_pylist() == [1]
