"""Compactors that clean, expire and purge delete nothing behind symbolic links in a table's folder."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
import structlog
from structlog.testing import capture_logs

from compactor.executor import Control
from compactor.metrics import Metrics
from compactor.retention.expiry import ExpiryJobExecutor
from lakelog.format.jobs.job import EXPIRE, Job, JobState
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects import local_folders
from lakelog.storage.objects.stores import LocationStores
from metastore.jobs.due_work import WorkPlanner
from metastore.testing import InProcessMetastore
from metastore.use_cases import PLANNERS
from tests.support.metastore.kept_tables import end_keeping
from tests.support.tables.attaching import attach_all

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])

pytestmark = pytest.mark.parametrize("metastore", ["memory"], indirect=True)


@pytest.fixture
def planners() -> Sequence[WorkPlanner]:
    return PLANNERS


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    (folder / "below").mkdir(parents=True)
    for name in ("precious.parquet", "below/precious.txt"):
        (folder / name).write_bytes(b"theirs")
    return folder


def make_orders(catalog: Catalog, **options: str) -> Table:
    orders = catalog.create_table("shop.orders", SCHEMA, primary_key=["k"], options=options)
    for number in range(3):
        orders.overwrite(pa.table([[1, 2], [number, number]], schema=SCHEMA))
    return orders


def kept(outside: Path) -> list[str]:
    return sorted(str(path.relative_to(outside)) for path in outside.rglob("*"))


def clean_behind_link(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A writer stages an attempt, and puts a link in the place of its folder."""
    orders = make_orders(catalog)
    attempt = metastore.stage_attempt([orders.uuid], "hostile").attempt_id
    link = warehouse / orders.uuid / "data" / attempt
    link.symlink_to(outside)
    for module in ("metastore.jobs.cleaning", "compactor.retention.cleaning"):
        monkeypatch.setattr(f"{module}.ABANDONED_MS", 0)
        monkeypatch.setattr(f"{module}.SETTLED_MS", 0)
    metastore.run(metastore.use_cases.cleaning.step())
    attach_all(metastore)
    return link


def test_cleaning_deletes_the_link_and_nothing_behind_it(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = kept(outside)
    link = clean_behind_link(catalog, metastore, warehouse, outside, monkeypatch)
    assert kept(outside) == before
    assert not link.is_symlink()
    table = catalog.table("shop.orders")
    assert not metastore.list_unfinished_attempts(table.uuid, open_ms=0, aborted_ms=0), "and the attempt is forgotten"


def test_control_where_links_are_followed_cleaning_deletes_what_is_behind_it(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_folders, "_FOLDER", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    clean_behind_link(catalog, metastore, warehouse, outside, monkeypatch)
    assert kept(outside) != ["below", "below/precious.txt", "precious.parquet"]


def test_expiry_deletes_no_files_of_the_same_names_elsewhere_and_says_why(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path, outside: Path
) -> None:
    orders = make_orders(catalog, **{"snapshot.time-retained": "0 ms", "snapshot.num-retained.min": "1"})
    first = orders.files(1).column("path")[0].as_py()
    folder = (warehouse / orders.uuid / first).parent
    shutil.copytree(folder, outside / "copy")
    shutil.rmtree(folder)
    folder.symlink_to(outside / "copy")
    before = kept(outside)
    expiry = ExpiryJobExecutor(metastore, LocationStores(), Metrics(), structlog.get_logger())
    job = Job(7, orders.uuid, orders.name, EXPIRE, "", JobState.LEASED, 0, {}, 1, "", "", 3, "me", 1000, 0, 0)
    with capture_logs() as lines:
        outcome = expiry.do(job, Control(threading.Event()))
    assert "left 1 file" in outcome
    assert [
        f"{folder} is a symbolic link" in line["reason"] for line in lines if "cannot be deleted" in line["event"]
    ] == [True]
    assert kept(outside) == before
    assert len(metastore.list_expired_files(orders.uuid, 100)) == 1
    # Once a person has removed it, expiry ends.
    folder.unlink()
    expiry.do(job, Control(threading.Event()))
    assert metastore.list_expired_files(orders.uuid, 100) == []


def test_a_purge_deletes_links_and_nothing_behind_them(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path, outside: Path
) -> None:
    orders = make_orders(catalog)
    folder = warehouse / orders.uuid
    (folder / "data" / uuid.uuid4().hex).symlink_to(outside)
    (folder / "file").symlink_to(outside / "precious.parquet")
    before = kept(outside)
    catalog.drop_table("shop.orders")
    end_keeping(metastore, orders.uuid)
    attach_all(metastore)
    assert kept(outside) == before
    assert not folder.exists()


def test_a_check_of_files_reports_links_and_deletes_none(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path, outside: Path
) -> None:
    orders = make_orders(catalog)
    link = warehouse / orders.uuid / "data" / ("f" * 32)
    link.symlink_to(outside)
    before = kept(outside)
    found = orders.check_files(repair=True, older_than=dt.timedelta(0))
    assert (found.orphan_files, found.deleted_files, found.broken_files) == (1, 0, 0)
    assert found.orphans[0].deletable == 0
    assert link.is_symlink()
    assert kept(outside) == before
