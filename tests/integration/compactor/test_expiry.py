"""Expiry from end to end: what goes leaves the store, what stays reads as ever (semantics 7.3)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import structlog

from compactor.executor import Control
from compactor.metrics import Metrics
from compactor.retention.expiry import ExpiryJobExecutor
from lakelog.errors import InvalidArgument, SnapshotExpired
from lakelog.format.jobs.job import EXPIRE, Job, JobState
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.support.tables.attaching import attach_all
from tests.support.tables.data_files import data_files
from tests.support.tables.keyed import emitted, make, rows, shown

AT_ONCE = {"snapshot.time-retained": "0 ms", "snapshot.num-retained.min": "1"}


class Died(BaseException):
    """As kill -9: nobody handles it."""


class DiesAt:
    """A metastore whose caller dies at a call, before or behind its effect; `delete_many` is the store's."""

    def __init__(self, inner: Any, call: str, when: str) -> None:
        self.inner, self.call, self.when = inner, call, when

    def open(self, location: str) -> Any:
        return DiesAt(LocationStores().open(location), self.call, self.when)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)
        if name != self.call:
            return method

        def dying(*args: Any, **kwargs: Any) -> None:
            if self.when == "after":
                method(*args, **kwargs)
            raise Died

        return dying


def make_executor(metastore: Any) -> ExpiryJobExecutor:
    stores: Any = metastore if isinstance(metastore, DiesAt) else LocationStores()
    return ExpiryJobExecutor(metastore, stores, Metrics(), structlog.get_logger())


def job_of(table: Table) -> Job:
    return Job(7, table.uuid, table.name, EXPIRE, "", JobState.LEASED, 0, {}, 1, "", "", 3, "me", 1000, 0, 0)


def write_versions(table: Table, count: int = 5) -> None:
    for number in range(count):
        table.overwrite(rows(f"+I 1|1|{number}", f"+I 2|2|{number}").drop_columns("_row_kind"))


def test_what_expired_leaves_the_store(metastore: InProcessMetastore, catalog: Catalog, warehouse: Path) -> None:
    table = make(catalog, "none", bucket="1")
    write_versions(table)
    before = shown(table)
    files = len(data_files(warehouse))
    planned = table.expire_snapshots(older_than=1 << 52, retain_last=2, dry_run=True)
    assert (planned.first_kept, planned.snapshots, planned.dry_run) == (4, 3, True)
    found = table.expire_snapshots(older_than=1 << 52, retain_last=2)
    assert (found.first_kept, found.snapshots, found.files, found.size_bytes) == (
        planned.first_kept,
        planned.snapshots,
        planned.files,
        planned.size_bytes,
    )
    assert len(data_files(warehouse)) == files
    attach_all(metastore)
    assert len(data_files(warehouse)) == files - found.files
    assert shown(table) == before
    assert table.snapshots()["id"].to_pylist() == [4, 5]
    with pytest.raises(SnapshotExpired, match=r"Snapshot 3 .* the snapshots 4 to 5 can still be read"):
        table.scan(snapshot_id=3)
    with pytest.raises(SnapshotExpired):
        emitted(table, 1)


def test_nothing_but_live_files_is_left(metastore: InProcessMetastore, catalog: Catalog, warehouse: Path) -> None:
    table = make(catalog, "lookup", bucket="2")
    for number in range(6):
        table.write(rows("+I 1|1|1", f"+I 1|{number + 2}|{number}", f"+U 1|1|{number}", f"-D 1|{number + 1}|0"))
    table.alter(set={"snapshot.num-retained.min": "1", "snapshot.time-retained": "0 ms"})
    before = shown(table)
    table.compact(full=True, wait=False)
    attach_all(metastore)
    table.expire_snapshots()
    attach_all(metastore)
    assert shown(table) == before
    live = {Path(each).name for each in table.files()["path"].to_pylist()}
    assert {Path(each).name for each in data_files(warehouse)} == live


def test_streams_of_a_table_go_on_where_only_the_changelog_is_left(
    metastore: InProcessMetastore, catalog: Catalog
) -> None:
    table = make(catalog, "lookup", bucket="1", **{**AT_ONCE, "changelog.num-retained.min": "10"})
    for number in range(5):
        table.write(rows(f"+I 1|1|{number}", f"+I 1|{number + 2}|0"))
    expected = emitted(table, 1)
    table.expire_snapshots()
    attach_all(metastore)
    assert table.snapshots()["id"].to_pylist() == [5]
    assert emitted(table, 1) == expected
    with table.subscribe(options={"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}) as stream:
        assert next(iter(stream)).snapshot_id == 2
    with pytest.raises(SnapshotExpired):
        table.scan(snapshot_id=4)


def test_a_consumer_keeps_what_it_needs_and_is_named(metastore: InProcessMetastore, catalog: Catalog) -> None:
    table = make(catalog, "none", bucket="1", **AT_ONCE)
    write_versions(table, 2)
    with table.subscribe(consumer_id="billing", options={"scan.mode": "from-snapshot", "scan.snapshot-id": "2"}) as s:
        s.commit()
    metastore.reset_consumer(table.uuid, "billing", 2)
    write_versions(table, 3)
    found = table.expire_snapshots()
    assert found.first_kept == 2
    assert found.to_arrow()["held_by"].to_pylist() == [["consumer 'billing' needs snapshot 2"]]
    table.consumers.delete("billing")
    assert table.expire_snapshots().first_kept == 5


@pytest.mark.parametrize("call", ["expire_snapshots", "delete_many", "forget_expired_files"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_any_process_that_dies_at_any_step_leaves_work_for_the_next(
    metastore: InProcessMetastore, catalog: Catalog, warehouse: Path, call: str, when: str
) -> None:
    table = make(catalog, "none", bucket="1", **AT_ONCE)
    write_versions(table)
    before = shown(table)
    with pytest.raises(Died):
        make_executor(DiesAt(metastore, call, when)).do(job_of(table), Control(threading.Event()))
    assert shown(table) == before
    make_executor(metastore).do(job_of(table), Control(threading.Event()))
    assert len(data_files(warehouse)) == table.files().num_rows
    assert shown(table) == before
    assert metastore.list_expired_files(table.uuid, 10) == []


def test_arguments_are_checked(catalog: Catalog) -> None:
    table = make(catalog, "none", bucket="1")
    with pytest.raises(InvalidArgument, match=r"retain_last=0 is no number of snapshots to keep: give 1 or more"):
        table.expire_snapshots(retain_last=0)
    with pytest.raises(InvalidArgument, match="older_than"):
        table.expire_snapshots(older_than="yesterday")
    with pytest.raises(InvalidArgument, match="dry_run"):
        table.expire_snapshots(dry_run="no")  # type: ignore[arg-type]
    assert table.expire_snapshots().first_kept is None
