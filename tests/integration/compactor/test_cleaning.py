"""What nothing refers to is found and deleted; what somebody writes, has committed or expiry has queued is not."""

from __future__ import annotations

import datetime as dt
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.errors import CommitConflict, InvalidArgument, LakelogError, NotFound
from lakelog.format.jobs.job import CLEAN, JobState
from lakelog.format.retention.table_files import FileUse, OrphanReason, UsedFile
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.maintenance.checking.file_check import check_files
from lakelog.sdk.maintenance.checking.file_check_result import FileCheck
from lakelog.sdk.tables.table import Table
from lakelog.storage.objects.store import PassOver, StoredObject
from lakelog.storage.objects.stores import LocationStores
from lakelog.testing.faulty_store import FaultyStore
from metastore.jobs.due_work import WorkPlanner
from metastore.testing import InProcessMetastore
from metastore.use_cases import PLANNERS
from tests.support.tables.attaching import attach_all


@pytest.fixture
def planners() -> Sequence[WorkPlanner]:
    return PLANNERS


SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
AT_ONCE = dt.timedelta(0)


def make_orders(catalog: Catalog, **options: str) -> Table:
    orders = catalog.create_table(
        "shop.orders", SCHEMA, primary_key=["k"], options={"changelog-producer": "lookup", **options}
    )
    for number in range(3):
        orders.upsert(rows_of(number))
    return orders


def rows_of(number: int) -> pa.Table:
    return pa.table([[1, 2], [number, number]], schema=SCHEMA)


def shown(table: Table) -> list[tuple[int, int]]:
    return [(row["k"], row["v"]) for row in table.scan().to_arrow().sort_by("k").to_pylist()]


def put(warehouse: Path, table: Table, path: str, *, age_s: float = 0) -> Path:
    file = warehouse / table.uuid / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * 10)
    os.utime(file, (time.time() - age_s,) * 2)
    return file


def leave(metastore: InProcessMetastore, warehouse: Path, table: Table, *names: str) -> str:
    """What a writer leaves that dies before it commits; its attempt."""
    attempt = metastore.stage_attempt([table.uuid], "dead").attempt_id
    for name in names:
        put(warehouse, table, f"data/{attempt}/{name}.parquet")
    return attempt


def test_a_table_in_order_has_no_orphans(catalog: Catalog, metastore: InProcessMetastore) -> None:
    orders = make_orders(catalog)
    found = orders.check_files()
    assert found.files == len(_used(metastore, orders)) > 6
    assert found.size_bytes > 1000
    assert (found.orphans, found.broken, found.deleted_files) == ((), (), 0)
    uses = {each.use for each in _used(metastore, orders)}
    assert uses == {FileUse.DATA, FileUse.CHANGELOG, FileUse.DELETION_VECTORS}


def test_orphans_are_reported_by_attempt_and_reason_and_deleted_where_that_is_safe(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path
) -> None:
    orders = make_orders(catalog)
    running = leave(metastore, warehouse, orders, "a", "b")
    given_up = leave(metastore, warehouse, orders, "c")
    metastore.abandon_attempt(given_up)
    committed = next(each.attempt_id for each in _attempts(metastore, orders))
    late = put(warehouse, orders, f"data/{committed}/late-task.parquet")
    young, old = put(warehouse, orders, "notes.txt"), put(warehouse, orders, "old/notes.txt", age_s=90_000)
    foreign = put(warehouse, orders, f"data/{'f' * 32}/a.parquet", age_s=90_000)
    before = shown(orders)
    found = orders.check_files()
    assert _reported(found) == {
        (running, OrphanReason.OPEN): (2, 20, 0),
        (given_up, OrphanReason.ABORTED): (1, 10, 1),
        (committed, OrphanReason.LEFT): (1, 10, 1),
        ("", OrphanReason.UNKNOWN): (2, 20, 1),
        ("f" * 32, OrphanReason.UNKNOWN): (1, 10, 1),
    }
    (is_open,) = [each for each in found.orphans if each.reason is OrphanReason.OPEN]
    assert is_open.open_ms is not None
    assert (found.orphan_files, found.orphan_bytes, found.deleted_files) == (7, 70, 0)
    assert late.exists(), "only a repair deletes"
    repaired = orders.check_files(repair=True)
    assert (_reported(repaired), repaired.deleted_files, repaired.deleted_bytes) == (_reported(found), 4, 40)
    assert not any(file.exists() for file in (late, old, foreign))
    assert not old.parent.exists(), "empty folders go too"
    assert young.exists()
    # The writer that was slow, and not dead, commits.
    assert _states(metastore, orders)[running] == "open"
    assert shown(orders) == before
    assert orders.check_files(repair=True).deleted_files == 0
    # Who has been open for too long is given up first.
    last = orders.check_files(repair=True, older_than=AT_ONCE)
    assert last.deleted_files == 3
    assert _states(metastore, orders)[running] == "aborted"
    assert not young.exists()
    with pytest.raises(CommitConflict, match="was given up"):
        _commit(metastore, orders, running)
    assert orders.check_files().orphans == ()
    assert shown(orders) == before
    assert orders.changes().count() == 2 + 4 + 4


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_files_that_are_missing_or_cut_are_reported(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path
) -> None:
    orders = make_orders(catalog)
    used = {each.use: each for each in _used(metastore, orders)}
    folder = warehouse / orders.uuid
    (folder / used[FileUse.CHANGELOG].path).unlink()
    (folder / used[FileUse.DELETION_VECTORS].path).unlink()
    with (folder / used[FileUse.DATA].path).open("ab") as cut:
        cut.write(b"more")
    size = used[FileUse.DATA].size_bytes
    assert size is not None
    found = orders.check_files(repair=True, older_than=AT_ONCE)
    assert {(each.path, each.use): (each.size_bytes, each.found_bytes) for each in found.broken} == {
        (used[FileUse.CHANGELOG].path, FileUse.CHANGELOG): (used[FileUse.CHANGELOG].size_bytes, None),
        (used[FileUse.DELETION_VECTORS].path, FileUse.DELETION_VECTORS): (None, None),
        (used[FileUse.DATA].path, FileUse.DATA): (size, size + 4),
    }
    assert (found.broken_files, found.deleted_files) == (3, 0)


class _ListedEarly(FaultyStore):
    """A store that lists files as they were while they were written, as folders do."""

    def list_pages(self, page_size: int, pass_over: PassOver | None = None) -> Iterator[list[StoredObject]]:
        for page in super().list_pages(page_size, pass_over):
            yield [replace(each, size_bytes=4) for each in page]


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_what_was_listed_while_it_was_written_is_not_broken(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path
) -> None:
    orders = make_orders(catalog)
    used = _used(metastore, orders)
    cut = next(each.path for each in used if each.use is FileUse.DATA)
    (warehouse / orders.uuid / cut).write_bytes(b"short")
    info = metastore.get_table_by_uuid(orders.uuid)
    store = _ListedEarly(catalog.open_store(info))
    found = check_files(metastore, store, info, repair=True, older_than_ms=0, clock=SystemClock())
    assert [(each.path, each.found_bytes) for each in found.broken] == [(cut, 5)]
    assert found.files == len(used)


def test_what_expiry_has_queued_is_left_to_it(catalog: Catalog, metastore: InProcessMetastore, warehouse: Path) -> None:
    orders = make_orders(catalog)
    orders.overwrite(rows_of(9))
    metastore.expire_snapshots(orders.uuid, older_than_ms=2**62, retain_last=1)
    queued = metastore.list_expired_files(orders.uuid, 100)
    assert queued
    found = orders.check_files(repair=True, older_than=AT_ONCE)
    assert (found.queued_files, found.orphan_files, found.deleted_files) == (len(queued), 0, 0)
    assert all((warehouse / orders.uuid / path).exists() for path in queued)


def test_writers_at_work_lose_nothing_while_tables_are_repaired(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path
) -> None:
    orders = make_orders(catalog)
    ending, hurried, failures = threading.Event(), threading.Event(), list[LakelogError]()

    def write(seed: int) -> None:
        table = Catalog(metastore, LocationStores()).table("shop.orders")
        number = 0
        while not ending.is_set():
            number += 1
            try:
                table.upsert(rows_of(100 * seed + number))
            except LakelogError as error:
                # Only a repair that is told to gives up those that are at work.
                if not hurried.is_set() or error.reason not in ("ATTEMPT_DOOMED", "FILE_NOT_FOUND"):
                    failures.append(error)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2)]
    for each in threads:
        each.start()
    give_up = time.monotonic() + 30
    while orders.snapshots().num_rows < 20:
        assert orders.check_files(repair=True).broken == ()
        assert time.monotonic() < give_up
    assert not failures
    hurried.set()
    for _ in range(6):
        assert orders.check_files(repair=True, older_than=AT_ONCE).broken == ()
    ending.set()
    for each in threads:
        each.join(30)
    assert not failures
    last = orders.check_files(repair=True, older_than=AT_ONCE)
    assert last.broken == ()
    assert len(shown(orders)) == 2
    orders.changes().to_arrow()


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_arguments_are_checked(catalog: Catalog) -> None:
    orders = make_orders(catalog)
    for wrong in (3600, "1 d", dt.timedelta(seconds=-1)):
        with pytest.raises(InvalidArgument, match="older_than is"):
            orders.check_files(older_than=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="repair"):
        orders.check_files("yes")  # type: ignore[arg-type]
    catalog.drop_table("shop.orders")
    with pytest.raises(NotFound, match=r"Table shop\.orders was dropped .* catalog\.restore_table"):
        orders.check_files()


def test_compactors_clear_away_what_dead_writers_have_left(
    catalog: Catalog, metastore: InProcessMetastore, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = make_orders(catalog)
    dead = leave(metastore, warehouse, orders, "a", "b")
    given_up = leave(metastore, warehouse, orders, "c")
    metastore.abandon_attempt(given_up)
    metastore.run(metastore.use_cases.cleaning.step())
    attach_all(metastore)
    assert len(_orphans(warehouse, orders, dead, given_up)) == 3, "they may be at work"
    _let_time_pass(monkeypatch)
    # Nobody commits to the table any more.
    metastore.run(metastore.use_cases.cleaning.step())
    attach_all(metastore)
    assert _orphans(warehouse, orders, dead, given_up) == []
    (job,) = [each for each in metastore.list_jobs([orders.uuid]) if each.kind == CLEAN]
    assert job.state is JobState.DONE
    assert job.outcome.startswith("deleted 3 files of")
    assert not {dead, given_up} & set(_states(metastore, orders))
    assert orders.check_files().orphans == ()
    assert shown(orders) == [(1, 2), (2, 2)]


def _reported(found: FileCheck) -> dict[tuple[str, OrphanReason], tuple[int, int, int]]:
    return {(each.attempt_id, each.reason): (each.files, each.size_bytes, each.deletable) for each in found.orphans}


def _let_time_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if three days had passed."""
    for module in ("metastore.jobs.cleaning", "compactor.retention.cleaning"):
        monkeypatch.setattr(f"{module}.ABANDONED_MS", 0)
        monkeypatch.setattr(f"{module}.SETTLED_MS", 0)


def _orphans(warehouse: Path, table: Table, *attempts: str) -> list[Path]:
    return [path for each in attempts for path in (warehouse / table.uuid / "data" / each).glob("*")]


def _used(metastore: InProcessMetastore, table: Table) -> list[UsedFile]:
    page = metastore.list_used_files(table.uuid)
    found = list(page.files)
    while page.cursor:
        page = metastore.list_used_files(table.uuid, page.cursor)
        found += page.files
    return found


def _attempts(metastore: InProcessMetastore, table: Table) -> Any:
    paths = [each.path for each in _used(metastore, table)]
    return metastore.find_used_files(table.uuid, paths).attempts


def _states(metastore: InProcessMetastore, table: Table) -> dict[str, str]:
    found = metastore.list_unfinished_attempts(table.uuid, open_ms=0, aborted_ms=0)
    return {each.attempt_id: each.state.value for each in found}


def _commit(metastore: InProcessMetastore, table: Table, attempt: str) -> None:
    from lakelog.format.commit.request import CommitRequest
    from tests.support.metastore.making import make_change, make_file

    change = make_change(table.info, [make_file(attempt)], bucket_count=1)
    metastore.commit(CommitRequest("dead", 1, (change,), attempt))
