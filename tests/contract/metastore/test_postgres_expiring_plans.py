"""Plans and lists whose statements see different moments, because something expires in between: never anything else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from lakelog.client.metastore.metastore import WatchPosition
from lakelog.errors import NotFound, SnapshotExpired
from lakelog.format.tables.plan import AtSnapshot, InRange, PlanRequest
from lakelog.format.tables.snapshot import Snapshot
from metastore.heavy_work import HeavyWork
from metastore.plans.packing import Packer
from metastore.postgres import PostgresStore
from metastore.postgres.store import PostgresTransaction
from metastore.store.records import FileQuery
from metastore.testing import InProcessMetastore
from tests.contract.metastore.expiring import append_many, expire, live, make_history, replace_all
from tests.support.metastore.making import append, make_table
from tests.support.metastore.opening import open_in_process


class Interrupted(PostgresTransaction):
    """Lets others work just before one of its statements, once."""

    meanwhile: ClassVar[dict[str, Callable[[], Any]]] = {}

    async def load_files(self, query: FileQuery) -> pa.Table:
        await self._let_others_work("load_files")
        return await super().load_files(query)

    async def list_removed(self, table_id: int, after: int, until: int) -> list[int]:
        await self._let_others_work("list_removed")
        return await super().list_removed(table_id, after, until)

    async def list_snapshots(
        self, table_id: int, after: int, until: int, limit: int, *, newest: bool = False
    ) -> list[Snapshot]:
        await self._let_others_work("list_snapshots")
        return await super().list_snapshots(table_id, after, until, limit, newest=newest)

    async def _let_others_work(self, statement: str) -> None:
        work = self.meanwhile.pop(statement, None)
        if work is not None:
            await asyncio.to_thread(work)


class InterruptedStore(PostgresStore):
    transaction_type = Interrupted


@pytest.fixture
def pair(migrated_url: str) -> Iterator[tuple[InProcessMetastore, InProcessMetastore]]:
    """One that is interrupted, and another one."""
    one, other = open_in_process(migrated_url, store_type=InterruptedStore), open_in_process(migrated_url)
    for each in (one, other):
        each.stop_background()
    try:
        yield one, other
    finally:
        Interrupted.meanwhile.clear()
        one.close()
        other.close()


def before(statement: str, work: Callable[[], Any], read: Callable[[], Any]) -> Any:
    Interrupted.meanwhile[statement] = work
    try:
        return read()
    finally:
        assert not Interrupted.meanwhile, f"it never came to {statement}"


@pytest.mark.parametrize("statement", ["list_snapshots", "load_files"])
@pytest.mark.parametrize(
    "request_of",
    [
        lambda uuid: PlanRequest(uuid, at=AtSnapshot(4)),
        lambda uuid: PlanRequest(uuid, at=AtSnapshot(4), below_bytes=1 << 40),
        lambda uuid: PlanRequest(uuid, at=InRange(1, 4)),
    ],
    ids=["state", "small files", "range"],
)
def test_what_expires_while_it_is_planned_is_said_to_have_expired(
    pair: tuple[InProcessMetastore, InProcessMetastore], request_of: Callable[[str], PlanRequest], statement: str
) -> None:
    """Not planned without the files that went."""
    one, other = pair
    table = make_table(one)
    make_history(one, table)
    request = request_of(table.table_uuid)
    # Its files are still there if nothing comes in between.
    assert one.plan(request).files.num_rows >= 3
    with pytest.raises(SnapshotExpired, match=r"Snapshot \d .* has expired; the snapshots 6 to 6 can still be read"):
        before(statement, lambda: expire(other, table), lambda: one.plan(request))


def test_a_tagged_state_is_planned_though_all_around_it_expires(
    pair: tuple[InProcessMetastore, InProcessMetastore],
) -> None:
    one, other = pair
    table = make_table(one)
    make_history(one, table)
    one.create_tag(table.table_uuid, "kept", 4)
    assert len(before("load_files", lambda: expire(other, table), lambda: live(one, table, 4))) == 4

    def forget() -> None:
        other.delete_tag(table.table_uuid, "kept")
        expire(other, table)

    with pytest.raises(SnapshotExpired):
        before("load_files", forget, lambda: live(one, table, 4))


def test_the_newest_state_is_planned_again_when_it_expires(pair: tuple[InProcessMetastore, InProcessMetastore]) -> None:
    one, other = pair
    table = make_table(one)
    make_history(one, table)

    def overwrite() -> None:
        replace_all(other, table, 2, "z")
        expire(other, table)

    assert before("load_files", overwrite, lambda: live(one, table)) == ["z.parquet"]


def test_a_table_that_is_purged_while_it_is_planned_is_said_to_be_dropped(
    pair: tuple[InProcessMetastore, InProcessMetastore],
) -> None:
    one, other = pair
    table = make_table(one)
    make_history(one, table)
    with pytest.raises(NotFound, match="was dropped at"):
        before("load_files", lambda: other.drop_table(table.name), lambda: live(one, table))


def test_chunks_that_are_packed_while_they_are_planned_show_nothing_that_is_gone(
    pair: tuple[InProcessMetastore, InProcessMetastore],
) -> None:
    one, other = pair
    table = make_table(one)
    append_many(one, table, 1)
    append_many(one, table, 2)
    assert one.run(Packer(one.store, HeavyWork(), min_unpacked=1).step()) == 1
    replace_all(one, table, 1, "z")
    append_many(one, table, 3)
    append_many(one, table, 4)

    def pack_and_expire() -> None:
        assert other.run(Packer(other.store, HeavyWork(), min_unpacked=1).step()) == 1
        expire(other, table)

    assert len(before("list_removed", pack_and_expire, lambda: live(one, table))) == 2001


@pytest.mark.parametrize("newest", [False, True], ids=["oldest", "newest"])
def test_a_list_of_snapshots_has_no_gap(pair: tuple[InProcessMetastore, InProcessMetastore], newest: bool) -> None:
    one, other = pair
    table = make_table(one)
    make_history(one, table)
    list_all = partial(one.list_snapshots, table.table_uuid, newest=newest)
    page = before("list_snapshots", lambda: expire(other, table), list_all)
    assert page.earliest_snapshot_id == 6
    assert [each.snapshot_id for each in page.snapshots] == [6]


def test_a_watch_that_begins_while_its_place_expires_says_so(
    pair: tuple[InProcessMetastore, InProcessMetastore],
) -> None:
    one, other = pair
    table = make_table(one)
    make_history(one, table)
    known: Sequence[Snapshot] = one.list_snapshots(table.table_uuid).snapshots

    def watch() -> None:
        opened = one.watch([WatchPosition(table.table_uuid, 2, known[1].snapshot_uuid)])
        try:
            next(iter(opened))
        finally:
            opened.close()

    with pytest.raises(SnapshotExpired, match="have expired"):
        before("list_snapshots", lambda: expire(other, table), watch)


def test_nothing_is_held_up_where_nothing_expires(pair: tuple[InProcessMetastore, InProcessMetastore]) -> None:
    one, other = pair
    table = make_table(one)
    make_history(one, table)
    found = before("load_files", lambda: append(other, table, 7, names="later"), lambda: live(one, table))
    assert found == ["p.parquet", "q.parquet"]
