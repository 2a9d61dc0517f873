"""C9: a database that lost a commit which a watcher had seen, and went on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import psycopg
import pytest

from lakelog.client.metastore.metastore import Metastore, WatchEvent, WatchPosition
from lakelog.errors import HistoryDiverged, SnapshotExpired
from lakelog.format.commit.facts import TableHead
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo
from metastore.postgres import PostgresStore
from metastore.postgres.connection.connections import libpq_url
from metastore.postgres.store import PostgresTransaction
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
        monkeypatch.setattr("metastore.snapshots.watching.check_parent", lambda *_: None)
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
        monkeypatch.setattr("metastore.snapshots.watching.check_history", _check_nothing)
        monkeypatch.setattr("metastore.snapshots.watching.check_parent", lambda *_: None)
    again = iter(metastore.watch([WatchPosition(table.table_uuid, 2, lost)]))
    if protected:
        with pytest.raises(HistoryDiverged, match=f"knows snapshot 2 as {lost}, but here it is"):
            next(again)
    else:
        assert [snapshot.snapshot_id for snapshot in next(again).snapshots] == [3]


class LosingTransaction(PostgresTransaction):
    """Before it lists the snapshots after one, the database may lose those."""

    lose: ClassVar[dict[int, Callable[[], None]]]

    async def list_snapshots(
        self, table_id: int, after: int, until: int, limit: int, *, newest: bool = False
    ) -> list[Snapshot]:
        self.lose.pop(after, lambda: None)()
        return await super().list_snapshots(table_id, after, until, limit, newest=newest)


@pytest.fixture
def losing(migrated_url: str) -> Iterator[tuple[InProcessMetastore, dict[int, Callable[[], None]]]]:
    """A metastore, and what happens to the database when it looks for the snapshots after one."""
    lose: dict[int, Callable[[], None]] = {}
    transaction = type("T", (LosingTransaction,), {"lose": lose})
    opened = open_in_process(migrated_url, store_type=type("S", (PostgresStore,), {"transaction_type": transaction}))
    yield opened, lose
    opened.close()


@pytest.mark.parametrize("seen", [1, 2], ids=["kept", "lost"])
@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_snapshots_that_are_lost_between_their_announcement_and_their_reading_have_not_expired(
    losing: tuple[InProcessMetastore, dict[int, Callable[[], None]]],
    metastore: InProcessMetastore,
    migrated_url: str,
    monkeypatch: pytest.MonkeyPatch,
    seen: int,
    protected: bool,
) -> None:
    """As in a failover: a watcher that has seen only what is kept goes on, and one that has seen more ends."""
    watching, lose = losing
    table = make_table(metastore)
    metastore.commit(empty(table, 1))
    lost = threading.Event()

    async def find_none(tx: PostgresTransaction, table_uuids: Sequence[str]) -> dict[str, TableHead]:
        return {} if lost.is_set() else await PostgresTransaction.find_heads(tx, table_uuids)

    if not protected:
        # As if it did not look whether what is missing has expired.
        monkeypatch.setattr(LosingTransaction, "find_heads", find_none)
    with ThreadPoolExecutor(1) as pool, psycopg.connect(libpq_url(migrated_url), autocommit=True) as connection:

        def lose_all_but_the_first() -> None:
            for statement in _LOSE:
                connection.execute(statement.replace("snapshot_id = 2", "snapshot_id >= 2"))
            lost.set()

        connection.execute(_KEEP)
        events = iter(watching.watch([WatchPosition(table.table_uuid, 0)]))
        for identifier in range(1, seen + 1):
            if identifier > 1:
                metastore.commit(empty(table, identifier))
            assert [each.snapshot_id for each in next(events).snapshots] == [identifier]
        lose[seen] = lose_all_but_the_first
        metastore.commit(empty(table, seen + 1))
        following = pool.submit(next, events)
        assert lost.wait(20)
        if seen == 2 or not protected:
            with pytest.raises(HistoryDiverged if protected else SnapshotExpired):
                following.result(20)
        else:
            again = metastore.commit(empty(table, seen + 2)).results[0]
            assert [each.snapshot_uuid for each in following.result(20).snapshots] == [again.snapshot_uuid]
