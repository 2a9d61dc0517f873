"""A file that cannot be deleted, or that no store takes, is passed over: all others go, and it is tried again later."""

from __future__ import annotations

import datetime as dt
import errno
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.retention import cleaning, deletions
from lakelog.errors import DataCorrupted, PermissionDenied
from lakelog.format.commit import rules
from lakelog.format.commit.request import CommitRequest
from lakelog.format.jobs.job import CLEAN, EXPIRE, PURGE, Job, JobState
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects import local, local_folders
from lakelog.storage.objects.local import LocalStore
from lakelog.storage.objects.store import ObjectStore
from metastore.jobs.due_work import WorkPlanner
from metastore.store import validation
from metastore.testing import InProcessMetastore
from metastore.use_cases import PLANNERS
from tests.support.metastore.kept_tables import end_keeping
from tests.support.metastore.making import make_change, make_file
from tests.support.tables.attaching import attach_all, make_service
from tests.support.tables.data_files import data_files

SCHEMA = pa.schema([pa.field("k", pa.int64())])
ONE = pa.table([[1]], schema=SCHEMA)
NOTHING_KEPT = {"snapshot.time-retained": "0 ms", "snapshot.num-retained.min": "1"}


@pytest.fixture
def planners() -> Sequence[WorkPlanner]:
    return PLANNERS


def overwritten(catalog: Catalog, name: str = "shop.orders", count: int = 4) -> Table:
    """A table whose earlier files expire once they may."""
    table = catalog.create_table(name, SCHEMA)
    for _ in range(count):
        table.overwrite(ONE)
    return table


def job_of(metastore: InProcessMetastore, table: Table, kind: str) -> Job:
    return next(job for job in metastore.list_jobs([table.uuid]) if job.kind == kind)


def await_job(metastore: InProcessMetastore, table: Table, kind: str) -> Job:
    """The job once it is planned again."""
    for _ in range(200):
        job = job_of(metastore, table, kind)
        if job.state is not JobState.DONE:
            return job
        time.sleep(0.05)
    raise AssertionError("it was never planned again")


def make_folder_of(warehouse: Path, table: Table, path: str) -> Path:
    """Puts a folder that is not empty in a file's place: no unlink removes it, whoever asks."""
    file = warehouse / table.uuid / path
    file.unlink()
    file.mkdir()
    (file / "kept").write_bytes(b"x")
    return file


def refuse(monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    """Makes local stores refuse to delete the file of this path, as for a folder without the right to write."""

    def refusing(root: Path, folder: str, names: Sequence[str]) -> list[str]:
        if refused in [f"{folder}/{name}" for name in names]:
            raise PermissionError(errno.EACCES, "Permission denied")
        return remove_files(root, folder, names)

    remove_files = local_folders.remove_files
    monkeypatch.setattr(local, "remove_files", refusing)


def delete_all_or_fail(store: ObjectStore, paths: Sequence[str]) -> list[Any]:
    """As it was without the protection."""
    store.delete_many(paths)
    return []


def commit_as_before(metastore: InProcessMetastore, table: Table, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Commits a file with a path that no store takes, as the gate once let pass; its path."""
    attempt = metastore.stage_attempt([table.uuid], "w").attempt_id
    path = f"data/{attempt}/{name}"
    change = make_change(table.info, [make_file(attempt, path=path)], bucket_count=-1)
    with monkeypatch.context() as before:
        before.setattr(validation, "is_path", lambda _: True)
        before.setattr(rules, "is_path", lambda _: True)
        metastore.commit(CommitRequest("old", 1, (change,), attempt))
    return path


def expire(catalog: Catalog, metastore: InProcessMetastore, table: Table) -> list[str]:
    """Lets all but the newest snapshot expire; the files that are to be deleted."""
    table.expire_snapshots(older_than=1 << 52, retain_last=1)
    return metastore.list_expired_files(table.uuid, 100)


def test_expiry_passes_over_what_cannot_be_deleted_and_tries_it_again(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path
) -> None:
    orders, others = overwritten(catalog), overwritten(catalog, "shop.others")
    first, *rest = expire(catalog, metastore, orders)
    assert len(rest) == 2
    folder = make_folder_of(warehouse, orders, first)
    expire(catalog, metastore, others)
    attach_all(metastore)
    assert metastore.list_expired_files(orders.uuid, 100) == [first]
    assert metastore.list_expired_files(others.uuid, 100) == []
    assert not any((warehouse / orders.uuid / path).exists() for path in rest)
    job = await_job(metastore, orders, EXPIRE)
    assert job.state is JobState.DUE
    assert job.remaining_ms > 1000, "not at once, and later each time"
    assert "deleted 2 files, left 1 file that cannot be deleted" in job.outcome
    assert first in job.outcome
    assert job.attempts == 0
    shutil.rmtree(folder)
    folder.write_bytes(b"x")
    metastore.retry_job(job.job_id)
    attach_all(metastore)
    assert metastore.list_expired_files(orders.uuid, 100) == []
    assert not folder.exists()


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_control_without_it_the_job_fails_and_the_files_stay(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = overwritten(catalog)
    listed = expire(catalog, metastore, orders)
    make_folder_of(warehouse, orders, listed[0])
    monkeypatch.setattr(deletions, "delete_files", delete_all_or_fail)
    attach_all(metastore)
    assert metastore.list_expired_files(orders.uuid, 100) == listed
    assert job_of(metastore, orders, EXPIRE).state is JobState.FAILED


@pytest.mark.parametrize("name", ["-x.parquet", "x" * 863])
def test_a_committed_path_that_no_store_takes_is_damage_and_keeps_no_other_file(
    catalog: Catalog, metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    orders = catalog.create_table("shop.orders", SCHEMA)
    orders.append(ONE)
    path = commit_as_before(metastore, orders, name, monkeypatch)
    with pytest.raises(DataCorrupted, match=f"{orders.uuid}/{path[:40]}") as found:
        orders.scan().to_arrow()
    assert found.value.reason == "INVALID_PATH"
    assert [each.path for each in orders.check_files().broken] == [path]
    orders.overwrite(ONE)
    assert orders.scan().count() == 1
    assert len(expire(catalog, metastore, orders)) == 2
    attach_all(metastore)
    assert metastore.list_expired_files(orders.uuid, 100) == [path]
    assert "No store takes such a path" in await_job(metastore, orders, EXPIRE).outcome


def test_cleaning_passes_over_what_cannot_be_deleted(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("metastore.jobs.cleaning", "compactor.retention.cleaning"):
        monkeypatch.setattr(f"{module}.ABANDONED_MS", 0)
        monkeypatch.setattr(f"{module}.SETTLED_MS", 0)
    monkeypatch.setattr(cleaning, "_BATCH", 2)
    orders = catalog.create_table("shop.orders", SCHEMA)
    attempts = [metastore.stage_attempt([orders.uuid], "dead").attempt_id for _ in range(6)]
    for number, attempt in enumerate(attempts):
        for name in ("a.parquet", "-x.parquet" if number < 3 else "b.parquet"):
            file = warehouse / orders.uuid / "data" / attempt / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"x")
    metastore.run(metastore.use_cases.cleaning.step())
    attach_all(metastore)
    assert [Path(path).name for path in data_files(warehouse)] == ["-x.parquet"] * 3
    left = metastore.list_unfinished_attempts(orders.uuid, open_ms=0, aborted_ms=0)
    assert sorted(each.attempt_id for each in left) == sorted(attempts[:3])
    job = job_of(metastore, orders, CLEAN)
    assert job.state is JobState.DONE
    assert "deleted 9 files of 3 attempts" in job.outcome
    assert "left 3 files that cannot be deleted" in job.outcome
    # As it was: nothing of them goes, and the job fails.
    monkeypatch.setattr(deletions, "delete_files", delete_all_or_fail)
    metastore.run(metastore.use_cases.cleaning.step())
    attach_all(metastore)
    assert job_of(metastore, orders, CLEAN).state is JobState.FAILED


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_cleaning_passes_over_a_folder_that_cannot_be_read(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("metastore.jobs.cleaning", "compactor.retention.cleaning"):
        monkeypatch.setattr(f"{module}.ABANDONED_MS", 0)
        monkeypatch.setattr(f"{module}.SETTLED_MS", 0)
    orders = catalog.create_table("shop.orders", SCHEMA)
    attempts = [metastore.stage_attempt([orders.uuid], "dead").attempt_id for _ in range(3)]
    for attempt in attempts:
        file = warehouse / orders.uuid / "data" / attempt / "a.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")

    def refusing(self: LocalStore, prefix: str = "") -> Any:
        if prefix == f"data/{attempts[0]}":
            raise PermissionDenied(f"This user may not read {prefix}.")
        return list_objects(self, prefix)

    list_objects = LocalStore.list_objects
    monkeypatch.setattr(LocalStore, "list_objects", refusing)
    metastore.run(metastore.use_cases.cleaning.step())
    attach_all(metastore)
    assert [Path(path).parent.name for path in data_files(warehouse)] == attempts[:1]
    job = job_of(metastore, orders, CLEAN)
    assert job.state is JobState.DONE
    assert "deleted 2 files of 2 attempts" in job.outcome
    assert f"left 1 file that cannot be deleted and will be tried again later, for instance data/{attempts[0]}" in (
        job.outcome
    )


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_a_dropped_table_stays_known_until_its_last_file_is_gone(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = overwritten(catalog)
    path = orders.files()["path"][0].as_py()
    catalog.drop_table("shop.orders")
    end_keeping(metastore, orders.uuid)
    with monkeypatch.context() as refusing:
        refuse(refusing, path)
        assert make_service(metastore).run() == 0
    (job,) = metastore.list_jobs([orders.uuid])
    assert (job.kind, job.state) == (PURGE, JobState.DUE)
    assert "left 1 file that cannot be deleted" in job.reason
    assert data_files(warehouse) == [f"{orders.uuid}/{path}"]
    metastore.retry_job(job.job_id)
    attach_all(metastore)
    assert data_files(warehouse) == []
    assert metastore.list_jobs([orders.uuid]) == []


def make_unreadable(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    """Makes local stores fail to open a folder of this name, as without the right to read it."""

    def refusing(path: Any, *args: Any, **named: Any) -> int:
        if path == folder:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return open_(path, *args, **named)

    open_ = os.open
    monkeypatch.setattr(os, "open", refusing)


def purge_with_an_unreadable_folder(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Job, list[str]]:
    """The job after its first try, and the files that it has left; with the right to read, all are purged."""
    orders = overwritten(catalog)
    unread = orders.files()["path"][0].as_py().split("/")[1]
    catalog.drop_table("shop.orders")
    end_keeping(metastore, orders.uuid)
    with monkeypatch.context() as refusing:
        make_unreadable(refusing, unread)
        assert make_service(metastore).run() == 0
    (job,) = metastore.list_jobs([orders.uuid])
    left = data_files(warehouse)
    assert any(unread in path for path in left)
    metastore.retry_job(job.job_id)
    attach_all(metastore)
    assert data_files(warehouse) == []
    assert metastore.list_jobs([orders.uuid]) == []
    return job, [path for path in left if unread not in path]


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_a_purge_passes_over_a_folder_that_cannot_be_read(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, others = purge_with_an_unreadable_folder(catalog, metastore, warehouse, monkeypatch)
    assert (job.kind, job.state) == (PURGE, JobState.DUE)
    assert "left 1 file that cannot be deleted" in job.reason
    assert "This user may not read or write" in job.reason
    assert others == []


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_control_without_it_a_purge_ends_at_a_folder_that_cannot_be_read(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_pages = LocalStore.list_pages
    monkeypatch.setattr(LocalStore, "list_pages", lambda self, page_size, _=None: list_pages(self, page_size))
    job, others = purge_with_an_unreadable_folder(catalog, metastore, warehouse, monkeypatch)
    assert "left" not in job.reason
    assert others


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_a_repair_passes_over_what_cannot_be_deleted(
    catalog: Catalog, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = overwritten(catalog)
    for name in ("a", "b", "c"):
        (warehouse / orders.uuid / "data" / name).write_bytes(b"x")
    refuse(monkeypatch, "data/b")
    found = orders.check_files(repair=True, older_than=dt.timedelta(0))
    assert (found.deleted_files, found.deleted_bytes, found.left_files) == (2, 2, 1)
