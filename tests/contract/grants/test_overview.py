"""The overview of callers with grants: the sums of their tables, and names of no other table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from lakelog.format.jobs.waiting_work import ConsumerLag, ConsumerLags, FailedJob, LogLag, LogLags, WaitingWork
from lakelog.format.retention.expiry import OverdueSnapshots, SnapshotLease, SnapshotLeaseKind
from lakelog.format.tables.grant import GrantLevel
from lakelog.rpc.job import OVERVIEW
from lakelog.serving.access import Role
from metastore.grants.needs import HeldGrants
from metastore.server.privileges.shown_overview import show_overview
from metastore.store.grants import HeldGrant
from tests.contract.grants.world import World, open_world


@pytest.fixture(params=["memory", "postgres"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    url = request.getfixturevalue("migrated_url") if request.param == "postgres" else None
    with open_world(url, extra={"plain-reader": Role.READER}) as opened:
        yield opened


def test_a_caller_gets_the_sums_of_what_it_may_read(world: World) -> None:
    everything = world.root.get_overview()
    assert (everything.database_count, everything.table_count) == (2, 3)
    sums = {}
    for name in (
        "plain-reader",
        "reader-of-the-table",
        "reader-of-the-database",
        "owner-of-another-database-and-table",
    ):
        with closing(world.connect(name)) as metastore:
            found = metastore.get_overview()
            assert found.now_ms >= everything.now_ms
            sums[name] = (found.database_count, found.table_count, found.snapshot_count, found.total_rows)
    # Each of the tables with rows has one snapshot; a dropped table does not count.
    rows = everything.total_rows // 2
    assert sums["plain-reader"] == (2, 3, 2, rows * 2)
    assert sums["reader-of-the-table"] == sums["reader-of-the-database"] == (1, 2, 1, rows)
    assert sums["owner-of-another-database-and-table"] == (1, 1, 1, rows)


def test_a_caller_without_a_grant_gets_nothing(world: World) -> None:
    with closing(world.connect("no-grant")) as metastore:
        found = metastore.get_overview()
    assert (found.database_count, found.table_count, found.now_ms, found.work) == (0, 0, 0, None)


def test_what_is_named_belongs_to_tables_that_the_caller_may_read(world: World) -> None:
    mine, others = ("shop.orders", "sales.mine"), ("shop.secret", "other.orders")
    tables = (*mine, *others)
    work = WaitingWork(
        failed_jobs=tuple(FailedJob(number, table, "compact", "why", 1) for number, table in enumerate(tables)),
        logs=LogLags(9, 90, 900, tuple(LogLag(table, 2, 7, True, "why") for table in tables)),
        consumers=(
            ConsumerLags("silent", 5, 50, 500, tuple(ConsumerLag(table, "c", 3, 8, None) for table in tables)),
            ConsumerLags("read", 1, 50, 500, (ConsumerLag("other.orders", "c", 3, 8, None),)),
        ),
    )
    lease = SnapshotLease(SnapshotLeaseKind.CONSUMER, "c", 1)
    overdue = tuple(OverdueSnapshots(table, lease, 4, 5) for table in tables)
    sums = world.root.get_overview()
    held = HeldGrants(
        (HeldGrant("sales", "", "", GrantLevel.READER), HeldGrant("shop", "1" * 32, "orders", GrantLevel.READER))
    )
    response = OVERVIEW.to_proto(type(sums)(7, 7, 7, 7, 7, 7, 7, 7, work, 40, overdue))
    found = OVERVIEW.from_proto(show_overview(response, sums, held))
    assert (found.table_count, found.work_age_ms) == (sums.table_count, 40)
    assert found.work is not None
    assert tuple(job.table for job in found.work.failed_jobs) == mine
    assert (found.work.logs.lagging_count, found.work.logs.snapshots, found.work.logs.longest_ms) == (2, 4, 7)
    assert tuple(lag.table for lag in found.work.logs.named) == mine
    (lags,) = found.work.consumers
    assert (lags.state, lags.count, lags.most_snapshots, lags.longest_ms) == ("silent", 2, 3, 8)
    assert tuple(lag.table for lag in lags.named) == mine
    assert not found.work.queues
    assert tuple(each.table for each in found.overdue) == mine
