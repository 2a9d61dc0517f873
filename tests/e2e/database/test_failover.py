"""C9, R2: writers, epochs, readers, consumers and files when a database fails over, with and without lost commits."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

import pytest

from lakelog.errors import Fenced, HistoryDiverged
from lakelog.format.commit.order import CommitOrder
from lakelog.format.tables.snapshot import Snapshot
from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from lakelog.writes.write_state import WriteState
from tests.e2e.database.two_metastores import WAIT_S, TwoMetastores, position, read, repeat, take, upsert, write

pytestmark = pytest.mark.e2e

add_to = CommitOrder.add


def read_values(stream: Subscription, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        batch = stream.read(WAIT_S)
        assert batch is not None, f"only {found} came"
        found += batch.data.column("v").to_pylist()
    return found


async def check_nothing(*_: object) -> None:
    """The check of a position, left out."""


def add_any(order: CommitOrder, table_uuid: str, snapshots: Sequence[Snapshot], *, more: bool = False) -> None:
    """Takes snapshots whatever came before them."""
    order._tables[table_uuid].after_uuid = ""
    add_to(order, table_uuid, snapshots, more=more)


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*.parquet"))


def test_lost_commits_are_written_again_and_lost_names_are_fenced(both: TwoMetastores, tmp_path: Path) -> None:
    table = both.make_table()
    first_epoch = both.catalog.register_writer("w")
    write(table, 1, "kept")
    kept_files = files(tmp_path)
    both.pair.begin_to_lag()
    zombie = Catalog(both.old, LocationStores())
    lost_epoch = zombie.register_writer("w")
    lost = [write(zombie.table(table.name), number, "lost") for number in (2, 3)]
    lost_files = files(tmp_path) - kept_files
    assert len(lost_files) == 2
    both.fail_over()

    assert both.catalog.last_identifier("w", table.name) == 1, "what is lost shows"
    with pytest.raises(Fenced) as fenced:
        write(zombie.table(table.name), 2, "zombie")
    assert fenced.value.reason == "EPOCH_UNKNOWN"
    successor = Catalog(both.other, LocationStores())
    epoch = successor.register_writer("w")
    assert len({first_epoch, lost_epoch, epoch}) == 3
    assert epoch > first_epoch
    with pytest.raises(Fenced):
        write(zombie.table(table.name), 2, "zombie")
    new = [write(successor.table(table.name), number, "new") for number in (2, 3)]
    assert [each.snapshot_id for each in new] == [each.snapshot_id for each in lost]
    assert not {each.snapshot_uuid for each in new} & {each.snapshot_uuid for each in lost}
    assert read(table) == ["kept", "new", "new"]

    # Nothing refers to the files of lost commits. They are deleted once they are older than any write takes.
    found = table.check_files(repair=True)
    assert (found.orphan_files, found.deleted_files) == (2, 0)
    assert lost_files < files(tmp_path)
    assert table.check_files(repair=True, older_than=dt.timedelta(0)).deleted_files == 2
    assert not lost_files & files(tmp_path)
    assert read(table) == ["kept", "new", "new"]


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_readers_that_saw_lost_commits_end(
    both: TwoMetastores, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    if not protected:
        monkeypatch.setattr("metastore.snapshots.watching.check_parent", lambda *_: None)
        monkeypatch.setattr("metastore.snapshots.watching.check_history", check_nothing)
        monkeypatch.setattr("metastore.snapshots.consumers._check_in_history", check_nothing)
        monkeypatch.setattr(CommitOrder, "add", add_any)
    table = both.make_table()
    write(table, 1, "kept")
    with table.subscribe(consumer_id="ahead") as ahead:
        assert read_values(ahead, 1) == ["kept"]
        both.pair.begin_to_lag()
        write(table, 2, "lost")
        assert read_values(ahead, 1) == ["lost"]
        both.fail_over()
        other = both.other_catalog.table(table.name)
        for number in (2, 3):
            write(other, number, "new")
        if not protected:
            assert read_values(ahead, 1) == ["new"], "in silence, without the first of the two"
            return
        with pytest.raises(HistoryDiverged):
            read_values(ahead, 1)
    # The consumer's own position was set back, too. A reader that begins again goes on from what is there.
    with other.subscribe(consumer_id="ahead") as again:
        assert read_values(again, 2)[-2:] == ["new", "new"]


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
@pytest.mark.parametrize(
    ("producer", "went_on"), [("none", False), ("none", True), ("lookup", False), ("lookup", True)]
)
def test_a_registered_writer_that_lives_on_leaves_no_gap(
    both: TwoMetastores, monkeypatch: pytest.MonkeyPatch, producer: str, went_on: bool, protected: bool
) -> None:
    """Its epoch is from before the loss, so nothing else tells the two histories apart."""
    if not protected:
        monkeypatch.setattr(WriteState, "rest_on_last", lambda _self, _writer, change: change)
    table = both.make_table(**{"changelog-producer": producer})
    both.catalog.register_writer("w")
    write(table, 1, "kept")
    both.pair.begin_to_lag()
    write(table, 2, "lost")
    both.fail_over()
    if went_on:
        for number in (7, 8):
            write(both.other_catalog.table(table.name), number, "new", writer="other")
    others = ["new", "new"] if went_on else []
    if not protected:
        write(table, 3, "next")
        assert read(table) == sorted(["kept", "next", *others]), "in silence, with a hole"
        return
    with pytest.raises(HistoryDiverged, match="restored to an earlier state"):
        write(table, 3, "next")
    assert read(table) == ["kept", *others]
    both.catalog.register_writer("w")
    assert both.catalog.last_identifier("w", table.name) == 1
    for number in (2, 3):
        write(table, number, "written again")
    assert read(table) == sorted(["kept", *others, "written again", "written again"])


@pytest.mark.parametrize("synchronous", [True, False], ids=["synchronous", "control"])
def test_a_synchronous_standby_loses_nothing(both: TwoMetastores, synchronous: bool) -> None:
    """The settings of Postgres decide; what is lost is noticed in any case."""
    table = both.make_table()
    first = write(table, 1, "a")
    if synchronous:
        both.pair.require_standby()
    else:
        both.pair.begin_to_lag()
    events = iter(both.old.watch(position(table, first)))
    second = write(table, 2, "b")
    assert take(events, 1) == [second.snapshot_uuid]
    both.fail_over()
    assert upsert(table, 2, "b").already_applied == synchronous, "what was acknowledged is there"
    assert read(table) == ["a", "b"]
    third = write(table, 3, "c")
    if synchronous:
        assert take(events, 1) == [third.snapshot_uuid], "no reader has to stop"
    else:
        with pytest.raises(HistoryDiverged):
            take(events, 1)


def test_a_standby_that_is_not_promoted_yet_refuses_writes(both: TwoMetastores) -> None:
    table = both.make_table()
    write(table, 1, "a")
    both.pair.catch_up()
    both.pair.primary.kill()
    for metastore in (both.old, both.other):
        with pytest.raises(Exception, match="nothing happened"):
            metastore.list_databases()
    both.pair.promote()
    repeat(both.old.list_databases)
    write(table, 2, "b")
    assert read(table) == ["a", "b"]
