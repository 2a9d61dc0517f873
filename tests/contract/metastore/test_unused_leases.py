"""Leases that no one has held for a long time go, with the reports of their pipelines; no epoch is given again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelog.errors import Fenced, NotFound
from lakelog.format.commit.request import Fence
from lakelog.format.jobs.job import PURGE
from lakelog.format.jobs.work import Pipeline
from lakelog.format.log.state import to_publisher_lease
from lakelog.format.tables.table import TableInfo
from metastore.jobs import unused_leases
from metastore.postgres.jobs import work
from metastore.store.transaction import Transaction, run_transaction
from metastore.testing import InProcessMetastore
from tests.support.metastore.kept_tables import end_keeping
from tests.support.metastore.making import empty, make_table

REPORT = Pipeline("p", "shop.flights", "/in", "running", 7, "120 of 365 files", 245, 1000, 3, "")

# So that all free leases count as unused, also those whose epoch's random bits make it a second later than it is.
AT_ONCE_MS = -5000


@pytest.fixture
def metastore(log_metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> InProcessMetastore:
    """A metastore with leases in pages of two."""
    monkeypatch.setattr(unused_leases, "_LEASES_A_STEP", 2)
    return log_metastore


def forget(metastore: InProcessMetastore) -> list[str]:
    """Leases that go, in one round over all names."""
    step = metastore.use_cases.unused_leases.step
    removed: list[str] = metastore.run(step())
    while metastore.use_cases.unused_leases._after:
        removed += metastore.run(step())
    return removed


def purge(metastore: InProcessMetastore, table: TableInfo) -> None:
    """Does the job that deletes a dropped table, before its time."""
    end_keeping(metastore, table.table_uuid)
    leased = metastore.lease_job([PURGE], [table.table_uuid], "c", duration_ms=60_000, wait_ms=5000)
    assert leased is not None
    metastore.begin_purge(leased.job_id, leased.epoch)
    while metastore.purge_rows(leased.job_id, leased.epoch):
        pass
    assert not metastore.finish_job(leased.job_id, leased.epoch)


def lock(metastore: InProcessMetastore, name: str) -> tuple[int, str]:
    async def find(transaction: Transaction) -> tuple[int, str]:
        return await transaction.lock_lease(name)

    return metastore.run(run_transaction(metastore.store, find))


def test_only_leases_that_no_one_holds_go(metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"pipeline/{letter}" for letter in "abcde"]
    epochs = {name: metastore.acquire_lease(name, "h", 60_000).epoch for name in names}
    for name in names:
        metastore.report_pipeline(replace(REPORT, name=name.removeprefix("pipeline/")), epochs[name])
    for name in names[::2]:
        metastore.release_lease(name, epochs[name])
    assert forget(metastore) == [], "all were held not long ago"
    monkeypatch.setattr(unused_leases, "UNUSED_MS", AT_ONCE_MS)
    assert forget(metastore) == names[::2]
    assert [each.name for each in metastore.list_pipelines()] == ["b", "d"]
    for name in names[1::2]:
        assert metastore.renew_lease(name, epochs[name], 60_000)


def test_who_comes_back_is_fenced(metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(metastore)
    old = metastore.acquire_lease("l", "h", 60_000).epoch
    metastore.release_lease("l", old)
    monkeypatch.setattr(unused_leases, "UNUSED_MS", AT_ONCE_MS)
    assert forget(metastore) == ["l"]
    for _ in range(2):
        with pytest.raises(Fenced):
            metastore.renew_lease("l", old, 60_000)
        with pytest.raises(Fenced):
            metastore.commit(empty(table, 1, fences=(Fence("l", old),)))
        metastore.release_lease("l", old)
        # Once more while another one holds it.
        metastore.acquire_lease("l", "other", 60_000)
    new = lock(metastore, "l")[0]
    assert new != old
    metastore.commit(empty(table, 1, fences=(Fence("l", new),)))


def lead_the_clock(metastore: InProcessMetastore) -> tuple[int, int]:
    """The last epoch before unused leases go and the next one after it, of a lease with epochs ahead of the clock."""
    epoch = 0
    for _ in range(60):
        # Between two epochs there is at least a second.
        epoch = metastore.acquire_lease("l", "h", 60_000).epoch
        metastore.release_lease("l", epoch)
    forget(metastore)
    return epoch, metastore.acquire_lease("l", "h", 60_000).epoch


def test_a_lease_with_an_epoch_in_the_future_stays(
    metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its epochs were given while the clock was wrong, or very often."""
    monkeypatch.setattr(unused_leases, "UNUSED_MS", AT_ONCE_MS)
    last, following = lead_the_clock(metastore)
    assert following > last


@pytest.mark.parametrize("log_metastore", ["postgres"], indirect=True)
def test_control_if_only_the_deadline_counts(metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unused_leases, "UNUSED_MS", AT_ONCE_MS)
    by_deadline = "(lease.deadline < clock_timestamp() - %s::bigint * interval '1 ms' AND %s::bigint IS NOT NULL)"
    for statement in ("_LIST_LEASES", "_FORGET_LEASES"):
        monkeypatch.setattr(work, statement, getattr(work, statement).replace(work._IS_UNUSED, by_deadline))
    last, following = lead_the_clock(metastore)
    assert following < last, "an epoch that an earlier holder could have"


def test_the_lease_of_a_purged_tables_publisher_goes(metastore: InProcessMetastore) -> None:
    tables = [make_table(metastore) for _ in range(2)]
    names = [to_publisher_lease(each.table_uuid) for each in tables]
    for name in names:
        metastore.release_lease(name, metastore.acquire_lease(name, "p", 60_000).epoch)
    metastore.drop_table(tables[0].name)
    assert lock(metastore, names[0])[0], "it can still be restored"
    purge(metastore, tables[0])
    assert [bool(lock(metastore, name)[0]) for name in names] == [False, True]
    with pytest.raises(NotFound):
        metastore.get_table_by_uuid(tables[0].table_uuid)
