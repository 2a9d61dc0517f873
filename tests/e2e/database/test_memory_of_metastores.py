"""C9: what metastores have in memory when their database fails over to a standby that lacks the last commits."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from lakelog.client.metastore.metastore import WatchPosition
from lakelog.errors import HistoryDiverged
from lakelog.format.commit.facts import TableHead
from lakelog.format.tables.plan import PlanRequest
from metastore.snapshots.watching import WatchHub
from tests.e2e.database.two_metastores import TwoMetastores, position, read, take, write

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_a_new_watcher_gets_nothing_that_was_lost(
    both: TwoMetastores, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    """An idle watcher keeps the lost snapshots in memory, where a new one would find them."""
    if not protected:
        monkeypatch.setattr(WatchHub, "_compare", follow_only)
    table = both.make_table()
    kept = write(table, 1, "kept")
    idle = iter(both.old.watch([WatchPosition(table.uuid, 0)]))
    assert take(idle, 1) == [kept.snapshot_uuid], "from now on its metastore keeps what is committed"
    both.pair.begin_to_lag()
    lost = [write(table, number, "lost").snapshot_uuid for number in (2, 3)]
    assert take(idle, 2) == lost
    both.fail_over()
    assert read(table) == ["kept"], "the standby had the commits, so nothing was shown"
    # Through the other one: of its commits this one learns by reading heads alone.
    found = [write(both.other_catalog.table(table.name), number, "new").snapshot_uuid for number in (2, 3)]
    assert not set(found) & set(lost)
    got = take(iter(both.old.watch(position(table, kept))), 2)
    if not protected:
        assert got == lost
        return
    assert got == found
    with pytest.raises(HistoryDiverged, match="knows snapshot 3 as"):
        next(idle)


def test_an_idle_watcher_ends_though_nothing_is_committed(both: TwoMetastores) -> None:
    table = both.make_table()
    kept = write(table, 1, "kept")
    ahead = iter(both.old.watch(position(table, kept)))
    both.pair.begin_to_lag()
    lost = write(table, 2, "lost")
    assert take(ahead, 1) == [lost.snapshot_uuid]
    both.fail_over()
    with pytest.raises(HistoryDiverged, match="knows snapshot 2, but the newest one is 1"):
        next(ahead)
    with pytest.raises(HistoryDiverged):
        next(iter(both.old.watch(position(table, lost))))


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_a_plan_has_no_packed_files_that_were_lost(
    both: TwoMetastores, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    if not protected:
        numbers = itertools.count(1)
        numbers_of_others = itertools.count(1)
        chosen = [numbers]
        monkeypatch.setattr("metastore.postgres.commits.snapshots._new_chunk_id", lambda: next(chosen[0]))
    # As for a table of thousands of files.
    monkeypatch.setattr("metastore.plans.planning._is_narrow", lambda *_: False)
    table = both.make_table()
    write(table, 1, "kept")
    both.pair.begin_to_lag()
    lost = write(table, 2, "lost")
    assert both.old.run(both.old.use_cases.packer.pack(table.uuid))
    assert both.old.plan(PlanRequest(table.uuid)).files.num_rows == 2
    assert both.old.run(_count_cached(both)) == 1
    both.fail_over()
    if not protected:
        # As a sequence in the database does, which was set back with it.
        chosen[0] = numbers_of_others
    other = both.other_catalog.table(table.name)
    new = write(other, 2, "new")
    assert new.snapshot_uuid != lost.snapshot_uuid
    assert both.other.run(both.other.use_cases.packer.pack(table.uuid))
    assert read(other) == ["kept", "new"]
    assert read(table) == (["kept", "new"] if protected else ["kept", "lost"])


def follow_only(hub: WatchHub, table: Any, head: TableHead, _: int) -> None:
    """Follows a head without a comparison with what is known."""
    hub._advance(table, head.latest_snapshot_id, head.latest_uuid, head.complete_until)


async def _count_cached(both: TwoMetastores) -> int:
    return len(both.old.use_cases.planner._cache._entries)
