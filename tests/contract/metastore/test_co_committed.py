"""Commits to several tables: each snapshot knows the others, and a look at several tables never shows half of one."""

from __future__ import annotations

import threading

import pytest

from lakelog.client.metastore.metastore import Metastore, WatchPosition
from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.commit.request import CommitRequest
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo
from tests.support.metastore.making import append, empty, make_change, make_table


def commit_together(metastore: Metastore, identifier: int, *tables: TableInfo, writer: str = "w") -> list[int | None]:
    changes = tuple(make_change(table, allow_empty=True) for table in tables)
    result = metastore.commit(CommitRequest(writer, identifier, changes))
    return [each.snapshot_id for each in result.results]


def load_last(metastore: Metastore, table: TableInfo) -> Snapshot:
    return metastore.list_snapshots(table.table_uuid, limit=1, newest=True).snapshots[-1]


def test_snapshots_of_one_commit_know_each_other(metastore: Metastore) -> None:
    first, second, third = (make_table(metastore) for _ in range(3))
    append(metastore, first, 1)
    assert load_last(metastore, first).co_committed == {}
    assert commit_together(metastore, 2, first, second, third) == [2, 1, 1]
    uuids = [table.table_uuid for table in (first, second, third)]
    ids = dict(zip(uuids, (2, 1, 1), strict=True))
    for table in (first, second, third):
        others = {uuid: n for uuid, n in ids.items() if uuid != table.table_uuid}
        assert load_last(metastore, table).co_committed == others
        events = iter(metastore.watch([WatchPosition(table.table_uuid, ids[table.table_uuid] - 1)]))
        assert next(events).snapshots[-1].co_committed == others


def test_a_table_to_which_nothing_was_committed_is_not_co_committed(metastore: Metastore) -> None:
    first, second = make_table(metastore), make_table(metastore)
    changes = (make_change(first, allow_empty=True), make_change(second))
    assert [each.snapshot_id for each in metastore.commit(CommitRequest("w", 1, changes)).results] == [1, None]
    assert load_last(metastore, first).co_committed == {}


def test_what_is_committed_together_has_one_time(metastore: Metastore) -> None:
    first, second = make_table(metastore), make_table(metastore)
    for number in range(5):
        metastore.commit(empty(first, number))
        commit_together(metastore, 10 + number, first, second)
        assert load_last(metastore, first).committed_at_ms == load_last(metastore, second).committed_at_ms


def test_the_newest_snapshots_of_tables_are_of_one_moment(metastore: Metastore) -> None:
    tables = [make_table(metastore) for _ in range(4)]
    uuids = [table.table_uuid for table in tables]
    assert [(each.snapshot_id, each.earliest_snapshot_id) for each in metastore.list_latest(uuids)] == [(0, 0)] * 4
    done = threading.Event()

    def write() -> None:
        for number in range(60):
            commit_together(metastore, number, *tables)
        done.set()

    writing = threading.Thread(target=write)
    writing.start()
    seen = set()
    while not done.is_set():
        found = metastore.list_latest(uuids)
        assert [each.table_uuid for each in found] == uuids
        assert len({each.snapshot_id for each in found}) == 1, f"a commit was seen by halves: {found}"
        seen.add(found[0].snapshot_id)
    writing.join()
    (last,) = metastore.list_latest(uuids[:1])
    assert (last.snapshot_id, last.earliest_snapshot_id) == (60, 1)
    assert last.snapshot_uuid == load_last(metastore, tables[0]).snapshot_uuid


def test_bad_lists_of_tables_are_refused(metastore: Metastore) -> None:
    table = make_table(metastore)
    with pytest.raises(InvalidArgument, match="Name 1 to 1000"):
        metastore.list_latest([])
    with pytest.raises(InvalidArgument, match="Name each table once"):
        metastore.list_latest([table.table_uuid, table.table_uuid])
    with pytest.raises(NotFound):
        metastore.list_latest(["0" * 32])
