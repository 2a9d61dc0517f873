"""Consumers: positions that move, are fenced, reset, and expire."""

from __future__ import annotations

import threading
import time

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import Fenced, HistoryDiverged, InvalidArgument, NotFound
from lakelog.format.retention.consumer import ConsumerPosition
from lakelog.format.tables.table import TableInfo
from metastore.snapshots import consumers
from tests.support.metastore.making import append, make_table


def make_history(metastore: Metastore, snapshots: int = 3) -> TableInfo:
    table = make_table(metastore)
    for number in range(snapshots):
        append(metastore, table, identifier=number)
    return table


def uuid_of(metastore: Metastore, table: TableInfo, snapshot_id: int) -> str:
    page = metastore.list_snapshots(table.table_uuid, after=snapshot_id - 1, limit=1)
    return page.snapshots[0].snapshot_uuid


def position(table: TableInfo, epoch: int, snapshot_id: int, uuid: str = "") -> ConsumerPosition:
    return ConsumerPosition(table.table_uuid, epoch, snapshot_id, uuid)


def test_a_consumer_goes_on_where_it_was(metastore: Metastore) -> None:
    table = make_history(metastore)
    (opened,) = metastore.open_consumer("etl", [table.table_uuid], "host-1")
    assert (opened.snapshot_id, opened.holder, opened.is_expired) == (None, "host-1", False)
    assert opened.expires_at_ms == opened.used_at_ms + 7 * 86_400_000
    uuid = uuid_of(metastore, table, 2)
    for _ in range(2):
        metastore.advance_consumer("etl", [position(table, opened.epoch, 2, uuid)])
    (listed,) = metastore.list_consumers(table.table_uuid)
    assert (listed.consumer_id, listed.table_uuid, listed.snapshot_id) == ("etl", table.table_uuid, 2)
    assert (listed.snapshot_uuid, listed.holder) == (uuid, "host-1")
    (again,) = metastore.open_consumer("etl", [table.table_uuid], "host-2")
    assert (again.snapshot_id, again.snapshot_uuid, again.holder) == (2, uuid, "host-2")
    assert again.epoch > opened.epoch
    # Another table's consumer of the same name is another one.
    other = make_history(metastore)
    assert metastore.list_consumers(other.table_uuid) == []


def test_who_opened_it_before_is_fenced(metastore: Metastore) -> None:
    table = make_history(metastore)
    (old,) = metastore.open_consumer("etl", [table.table_uuid], "old")
    (new,) = metastore.open_consumer("etl", [table.table_uuid], "new")
    with pytest.raises(
        Fenced, match=r"(?s)Consumer 'etl' of table shop\..* is read by 'new' by now.*another consumer id"
    ):
        metastore.advance_consumer("etl", [position(table, old.epoch, 1)])
    metastore.advance_consumer("etl", [position(table, new.epoch, 1)])
    metastore.reset_consumer(table.table_uuid, "etl", 0)
    with pytest.raises(Fenced, match="was reset"):
        metastore.advance_consumer("etl", [position(table, new.epoch, 2)])
    metastore.delete_consumer(table.table_uuid, "etl")
    with pytest.raises(Fenced, match="was deleted"):
        metastore.advance_consumer("etl", [position(table, 3, 2)])


def test_positions_of_several_tables_move_together_or_not_at_all(metastore: Metastore) -> None:
    first, second = make_history(metastore), make_history(metastore)
    opened = metastore.open_consumer("both", [second.table_uuid, first.table_uuid], "")
    assert [each.table_uuid for each in opened] == [second.table_uuid, first.table_uuid]
    metastore.advance_consumer("both", [position(first, opened[1].epoch, 1), position(second, opened[0].epoch, 3)])
    metastore.open_consumer("both", [second.table_uuid], "another")
    with pytest.raises(Fenced):
        metastore.advance_consumer("both", [position(first, opened[1].epoch, 2), position(second, opened[0].epoch, 3)])
    assert metastore.list_consumers(first.table_uuid)[0].snapshot_id == 1


def test_a_position_is_one_that_the_table_has_and_does_not_go_back(metastore: Metastore) -> None:
    table = make_history(metastore)
    (opened,) = metastore.open_consumer("etl", [table.table_uuid], "")
    metastore.advance_consumer("etl", [position(table, opened.epoch, 0)])
    with pytest.raises(InvalidArgument, match=r"snapshot_id is 4\. The newest snapshot of table shop\..* is 3"):
        metastore.advance_consumer("etl", [position(table, opened.epoch, 4)])
    with pytest.raises(HistoryDiverged, match=r"has seen snapshot 4 of table .*, but the newest one is 3"):
        metastore.advance_consumer("etl", [position(table, opened.epoch, 4, "a" * 32)])
    with pytest.raises(HistoryDiverged, match=r"Snapshot 3 of table .* is not the one that the reader has seen"):
        metastore.advance_consumer("etl", [position(table, opened.epoch, 3, uuid_of(metastore, table, 2))])
    metastore.advance_consumer("etl", [position(table, opened.epoch, 2)])
    with pytest.raises(InvalidArgument, match=r"is at 2 by now and never goes back by itself; reset it"):
        metastore.advance_consumer("etl", [position(table, opened.epoch, 1)])


def test_a_reset_goes_back_and_forth(metastore: Metastore) -> None:
    table = make_history(metastore)
    for snapshot_id in (2, 9):
        with pytest.raises(NotFound, match=r"has no consumer 'new'; it has none\."):
            metastore.reset_consumer(table.table_uuid, "new", snapshot_id)
    (first,) = metastore.open_consumer("new", [table.table_uuid], "")
    metastore.reset_consumer(table.table_uuid, "new", 2)
    (made,) = metastore.list_consumers(table.table_uuid)
    assert (made.snapshot_id, made.snapshot_uuid, made.holder) == (2, uuid_of(metastore, table, 2), "")
    metastore.reset_consumer(table.table_uuid, "new", 0)
    (opened,) = metastore.open_consumer("new", [table.table_uuid], "")
    assert (opened.snapshot_id, opened.snapshot_uuid) == (0, "")
    assert opened.epoch > made.epoch > first.epoch
    with pytest.raises(InvalidArgument, match=r"cannot be set to snapshot 4: the newest of table shop\..* is 3"):
        metastore.reset_consumer(table.table_uuid, "new", 4)


def test_an_unknown_consumer_is_named_with_those_there_are(metastore: Metastore) -> None:
    table = make_history(metastore)
    with pytest.raises(NotFound, match=r"has no consumer 'x'; it has none\."):
        metastore.delete_consumer(table.table_uuid, "x")
    for name in ("b", "a"):
        metastore.open_consumer(name, [table.table_uuid], "")
    with pytest.raises(NotFound, match=r"has no consumer 'x'; it has a, b\."):
        metastore.delete_consumer(table.table_uuid, "x")
    assert [each.consumer_id for each in metastore.list_consumers(table.table_uuid)] == ["a", "b"]


def expire(metastore: Metastore, table: TableInfo) -> int:
    """Has all but the newest snapshot expire that nobody holds; the earliest one whose changes are kept."""
    metastore.expire_snapshots(table.table_uuid, older_than_ms=1 << 52, retain_last=1)
    return metastore.list_snapshots(table.table_uuid, limit=1).earliest_change_id


def expire_soon(metastore: Metastore, table: TableInfo) -> None:
    metastore.alter_table(table.table_uuid, set_options={"consumer.expiration-time": "400 ms"}, unset_options=())


def test_an_unused_consumer_expires_and_its_position_is_remembered(metastore: Metastore) -> None:
    table = make_history(metastore, 5)
    expire_soon(metastore, table)
    (opened,) = metastore.open_consumer("etl", [table.table_uuid], "host-1")
    assert opened.expires_at_ms == opened.used_at_ms + 400
    metastore.advance_consumer("etl", [position(table, opened.epoch, 2)])
    assert [lease.snapshot_id for lease in metastore.list_snapshot_leases(table.table_uuid)] == [2]
    assert expire(metastore, table) == 2, "it keeps what it still needs"
    time.sleep(0.5)
    (listed,) = metastore.list_consumers(table.table_uuid)
    assert (listed.snapshot_id, listed.is_expired) == (2, True)
    assert metastore.list_snapshot_leases(table.table_uuid) == [], "it keeps nothing any more"
    # While nothing has gone it goes on where it was, and keeps what it needs again.
    (again,) = metastore.open_consumer("etl", [table.table_uuid], "host-2")
    assert (again.snapshot_id, again.is_expired) == (2, False)
    assert again.epoch > opened.epoch
    assert expire(metastore, table) == 2
    time.sleep(0.5)
    assert expire(metastore, table) == 5
    # What comes next has gone: its position tells so to whoever subscribes, and it keeps nothing by that.
    (late,) = metastore.open_consumer("etl", [table.table_uuid], "host-3")
    assert late.snapshot_id == 2
    append(metastore, table, identifier=5)
    assert expire(metastore, table) == 6
    metastore.reset_consumer(table.table_uuid, "etl", 6)
    time.sleep(0.5)
    metastore.delete_consumer(table.table_uuid, "etl")
    assert metastore.list_consumers(table.table_uuid) == []


def test_a_reader_that_is_there_keeps_its_consumer_though_nothing_moves(metastore: Metastore) -> None:
    table = make_history(metastore)
    expire_soon(metastore, table)
    (opened,) = metastore.open_consumer("etl", [table.table_uuid], "host-1")
    metastore.open_consumer("left", [table.table_uuid], "host-2")
    for _ in range(5):
        time.sleep(0.2)
        metastore.renew_consumer("etl", {table.table_uuid: opened.epoch}, "host-1")
    found = {each.consumer_id: each.is_expired for each in metastore.list_consumers(table.table_uuid)}
    assert found == {"etl": False, "left": True}


def test_who_has_closed_does_not_read(metastore: Metastore) -> None:
    table, other = make_history(metastore), make_history(metastore)
    first = metastore.open_consumer("etl", [table.table_uuid, other.table_uuid], "host-1")
    epochs = {each.table_uuid: each.epoch for each in first}
    for holder in ("", "", "host-9"):
        metastore.renew_consumer("etl", epochs, holder)
        assert [each.holder for each in metastore.list_consumers(other.table_uuid)] == [holder]
    (second,) = metastore.open_consumer("etl", [other.table_uuid], "host-2")
    with pytest.raises(Fenced, match="is read by 'host-2' by now"):
        metastore.renew_consumer("etl", epochs, "")
    found = [metastore.list_consumers(each.table_uuid)[0].holder for each in (table, other)]
    assert found == ["host-9", "host-2"], "all or none, and nobody closes for another"
    metastore.renew_consumer("etl", {other.table_uuid: second.epoch}, "")
    with pytest.raises(Fenced, match="opened by another that has closed since"):
        metastore.advance_consumer("etl", [position(other, first[1].epoch, 1)])


def test_who_was_not_heard_of_for_long_does_not_read(metastore: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_history(metastore)
    (opened,) = metastore.open_consumer("etl", [table.table_uuid], "host-1")

    def find() -> tuple[str, bool]:
        (found,) = metastore.list_consumers(table.table_uuid)
        return found.holder, found.is_expired

    assert find() == ("host-1", False)
    monkeypatch.setattr(consumers, "SILENT_MS", 200)
    time.sleep(0.25)
    assert find() == ("", False), "killed, it could not say that it goes"
    monkeypatch.setattr(consumers, "SILENT_MS", 60_000)
    metastore.renew_consumer("etl", {table.table_uuid: opened.epoch}, "host-1")
    assert find() == ("host-1", False)


def test_a_consumer_that_is_used_while_snapshots_expire_keeps_what_it_needs_or_learns_that_it_is_gone(
    metastore: Metastore,
) -> None:
    """Whichever comes first: it is never told that it goes on, and finds the next change gone."""
    for number in range(5):
        table = make_history(metastore, 4)
        expire_soon(metastore, table)
        (opened,) = metastore.open_consumer("etl", [table.table_uuid], "")
        metastore.advance_consumer("etl", [position(table, opened.epoch, 1)])
        time.sleep(0.4 - number * 0.004)
        expiring = threading.Thread(target=expire, args=(metastore, table))
        expiring.start()
        (again,) = metastore.open_consumer("etl", [table.table_uuid], "")
        page = metastore.list_snapshots(table.table_uuid, limit=1)
        expiring.join()
        later = metastore.list_snapshots(table.table_uuid, limit=1).earliest_change_id
        assert again.snapshot_id == 1
        assert later == page.earliest_change_id, "once it is open, nothing that it needs goes"
        assert later in (1, 4)


def test_a_dropped_table_has_no_consumers(metastore: Metastore) -> None:
    table = make_history(metastore)
    metastore.open_consumer("etl", [table.table_uuid], "")
    metastore.drop_table(table.name)
    for call in (
        lambda: metastore.list_consumers(table.table_uuid),
        lambda: metastore.open_consumer("etl", [table.table_uuid], ""),
        lambda: metastore.advance_consumer("etl", [position(table, 1, 1)]),
        lambda: metastore.reset_consumer(table.table_uuid, "etl", 0),
        lambda: metastore.delete_consumer(table.table_uuid, "etl"),
    ):
        with pytest.raises(NotFound, match=r"was dropped at .* it can be restored"):
            call()


@pytest.mark.parametrize(
    ("consumer_id", "count", "holder", "message"),
    [
        ("", 1, "", r"consumer_id is ''\. Give 1 to 256 characters"),
        ("x" * 257, 1, "", "Give 1 to 256 characters"),
        ("a\x00b", 1, "", r"Leave out the character U\+0000"),
        ("a\nb", 1, "", "Leave out line breaks"),
        ("etl", 0, "", r"table_uuids is '0 tables'\. Name 1 to 1000"),
        ("etl", 2, "", "Name each table once"),
        ("etl", 1, "h" * 257, "holder"),
    ],
)
def test_bad_requests_are_refused(
    metastore: Metastore, consumer_id: str, count: int, holder: str, message: str
) -> None:
    table = make_table(metastore)
    with pytest.raises(InvalidArgument, match=message):
        metastore.open_consumer(consumer_id, [table.table_uuid] * count, holder)
    with pytest.raises(InvalidArgument, match="epoch"):
        metastore.advance_consumer("etl", [position(table, 0, 1)])
    with pytest.raises(InvalidArgument, match="snapshot_id"):
        metastore.advance_consumer("etl", [position(table, 1, -1)])
    with pytest.raises(InvalidArgument, match="snapshot_uuid"):
        metastore.advance_consumer("etl", [position(table, 1, 1, "no uuid")])
