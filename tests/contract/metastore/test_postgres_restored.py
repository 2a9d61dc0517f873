"""C9: a database that lost a commit which a watcher had seen, and went on."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from lakelog.client.metastore.metastore import Metastore, WatchEvent, WatchPosition
from lakelog.errors import HistoryDiverged
from lakelog.format.tables.table import TableInfo
from metastore.postgres.connection.connections import libpq_url
from metastore.testing import InProcessMetastore
from tests.support.metastore.making import empty, make_table
from tests.support.metastore.opening import open_in_process

_KEEP = "CREATE TABLE kept AS TABLE table_head"
_LOSE = (
    "DELETE FROM commit_result WHERE snapshot_id = 2",
    "DELETE FROM snapshot WHERE snapshot_id = 2",
    "UPDATE table_head h SET latest_snapshot_id = k.latest_snapshot_id, latest_uuid = k.latest_uuid, "
    "committed_at_ms = k.committed_at_ms FROM kept k WHERE k.table_id = h.table_id",
)


@pytest.fixture
def metastore(migrated_url: str) -> Iterator[InProcessMetastore]:
    opened = open_in_process(migrated_url)
    yield opened
    opened.close()


def see_what_is_lost(metastore: Metastore, url: str) -> tuple[TableInfo, Iterator[WatchEvent], str]:
    """Commits 1 and 2, of which a watcher is told; then 2 never happened, and another 2 and a 3 do.

    Returns:
        The table, the open watch, and the uuid of the lost snapshot.
    """
    table = make_table(metastore)
    metastore.commit(empty(table, 1))
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        connection.execute(_KEEP)
        events = iter(metastore.watch([WatchPosition(table.table_uuid, 0)]))
        lost = metastore.commit(empty(table, 2)).results[0].snapshot_uuid
        seen: list[str] = []
        while len(seen) < 2:
            seen += [snapshot.snapshot_uuid for snapshot in next(events).snapshots]
        assert seen[1] == lost
        for statement in _LOSE:
            connection.execute(statement)
    for identifier in (3, 4):
        metastore.commit(empty(table, identifier))
    assert [s.snapshot_id for s in metastore.list_snapshots(table.table_uuid).snapshots] == [1, 2, 3]
    return table, events, lost


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_an_open_watch_ends(
    metastore: InProcessMetastore, migrated_url: str, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    if not protected:
        monkeypatch.setattr("metastore.snapshots.watching._check_parent", lambda *_: None)
    _, events, lost = see_what_is_lost(metastore, migrated_url)
    if protected:
        with pytest.raises(HistoryDiverged, match=f"knows snapshot 2 as {lost}, but what follows it here names"):
            next(events)
    else:
        assert [snapshot.snapshot_id for snapshot in next(events).snapshots] == [3], "in silence, with a hole"


async def _check_nothing(*_: object) -> None:
    """The check of a watch's position, left out."""


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_a_watch_that_comes_back_is_refused(
    metastore: InProcessMetastore, migrated_url: str, monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    table, _, lost = see_what_is_lost(metastore, migrated_url)
    if not protected:
        monkeypatch.setattr("metastore.snapshots.watching._check_history", _check_nothing)
        monkeypatch.setattr("metastore.snapshots.watching._check_parent", lambda *_: None)
    again = iter(metastore.watch([WatchPosition(table.table_uuid, 2, lost)]))
    if protected:
        with pytest.raises(HistoryDiverged, match=f"knows snapshot 2 as {lost}, but here it is"):
            next(again)
    else:
        assert [snapshot.snapshot_id for snapshot in next(again).snapshots] == [3]
