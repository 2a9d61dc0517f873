"""Watchers that read slowly, and a hub that has missed commits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pytest

from lakelog.client.metastore.metastore import WatchEvent, WatchPosition
from lakelog.clock import SystemClock
from lakelog.errors import InternalError, OutcomeUnknown, ResourceExhausted, Unavailable
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo, TableName
from metastore.background import Background
from metastore.memory import MemoryStore
from metastore.metrics import NoMetrics
from metastore.ownership import EVERYONE
from metastore.snapshots import watching
from metastore.snapshots.watching import WatchHub
from metastore.store.limits import Limits
from metastore.store.transaction import run_transaction
from metastore.use_cases import UseCases


async def make(store: MemoryStore, **limits: int) -> tuple[UseCases, TableInfo]:
    use_cases = UseCases(store, "file:///w", limits=Limits(**limits))
    await use_cases.catalog.create_database("d", if_not_exists=True)
    schema = pa.schema([("id", pa.int64())])
    table, _ = await use_cases.catalog.create_table(TableName("d", "t"), schema, if_not_exists=True, by=EVERYONE)
    return use_cases, table


async def commit(use_cases: UseCases, table: TableInfo, first: int, count: int) -> None:
    change = Change(table.table_uuid, SnapshotKind.APPEND, 0, -1, allow_empty=True)
    for n in range(first, first + count):
        await use_cases.gate.commit(CommitRequest("w", n, (change,)), by=EVERYONE)


async def ids(events: AsyncIterator[WatchEvent], count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        event = await asyncio.wait_for(anext(events), 5)
        found += [snapshot.snapshot_id for snapshot in event.snapshots]
    return found


def test_a_watcher_that_falls_too_far_behind_is_cut() -> None:
    async def main() -> None:
        use_cases, table = await make(MemoryStore(SystemClock()), watch_lag_snapshots=10)
        await commit(use_cases, table, 0, 50)
        # A long history is no lag: who catches up is not cut.
        events = aiter(use_cases.watches.watch([WatchPosition(table.table_uuid, 0)]))
        assert await ids(events, 50) == list(range(1, 51))
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        await commit(use_cases, table, 50, 1)
        assert (await waiting).snapshots[0].snapshot_id == 51
        await commit(use_cases, table, 51, 20)
        with pytest.raises(
            ResourceExhausted, match=r"20 snapshots behind .* 10 are allowed. Watch again from snapshot 51"
        ):
            await anext(events)
        events = aiter(use_cases.watches.watch([WatchPosition(table.table_uuid, 51)]))
        assert await ids(events, 20) == list(range(52, 72))

    asyncio.run(main())


def test_commits_of_another_metastore_are_found_by_looking() -> None:
    async def main() -> None:
        store = MemoryStore(SystemClock())
        use_cases, table = await make(store)
        other, _ = await make(store)
        await commit(use_cases, table, 0, 2)
        events = aiter(use_cases.watches.watch([WatchPosition(table.table_uuid, 0)]))
        assert await ids(events, 2) == [1, 2]
        await commit(other, table, 2, 3)
        waiting = asyncio.ensure_future(ids(events, 3))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await use_cases.watches.step_poll()
        assert await waiting == [3, 4, 5]
        # What this one commits next does not follow on what it remembers: the store fills the gap.
        await commit(other, table, 5, 2)
        await commit(use_cases, table, 7, 1)
        assert await ids(events, 3) == [6, 7, 8]

    asyncio.run(main())


def test_commits_of_another_metastore_after_what_is_remembered_are_found() -> None:
    async def main() -> None:
        store = MemoryStore(SystemClock())
        use_cases, table = await make(store)
        other, _ = await make(store)
        events = aiter(use_cases.watches.watch([WatchPosition(table.table_uuid, 0)]))
        waiting = asyncio.ensure_future(ids(events, 1))
        await asyncio.sleep(0.01)
        # A commit of its own while somebody watches: from now on the hub remembers snapshot 1, and nothing behind it.
        await commit(use_cases, table, 0, 1)
        assert await waiting == [1]
        waiting = asyncio.ensure_future(ids(events, 2))
        await asyncio.sleep(0.01)
        await commit(other, table, 1, 2)
        await use_cases.watches.step_poll()
        assert await waiting == [2, 3]

    asyncio.run(main())


def test_announcements_wake_the_other_metastore() -> None:
    async def main() -> None:
        store = MemoryStore(SystemClock())
        use_cases, table = await make(store)
        other, _ = await make(store)
        listening = asyncio.create_task(use_cases.watches.run_listen())
        events = aiter(use_cases.watches.watch([WatchPosition(table.table_uuid, 0)]))
        waiting = asyncio.ensure_future(ids(events, 1))
        await asyncio.sleep(0.01)
        await commit(other, table, 0, 1)
        await other.watches.step_announce()
        assert await waiting == [1]
        await store.close()
        await listening

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "is_repeated"),
    [
        (Unavailable("away"), True),
        (OutcomeUnknown("lost"), True),
        (InternalError("refused"), False),
        (ValueError("a bug"), False),
    ],
    ids=["away", "lost", "refused", "bug"],
)
def test_an_announcement_that_failed_is_sent_again_if_that_can_help(error: Exception, is_repeated: bool) -> None:
    sent: list[set[str]] = []

    async def announce(tables: set[str]) -> None:
        sent.append(set(tables))
        if len(sent) == 1:
            raise error

    async def main() -> None:
        store = MemoryStore(SystemClock())
        store.announce = announce  # type: ignore[method-assign, assignment]
        watches = WatchHub(store, Limits(), NoMetrics())
        watches.announce("a")
        with pytest.raises(type(error)):
            await watches.step_announce()
        if is_repeated:
            await asyncio.wait_for(watches.step_announce(), 20)
        watches.announce("b")
        await asyncio.wait_for(watches.step_announce(), 20)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(watches.step_announce(), 0.05)

    asyncio.run(main())
    assert sent == ([{"a"}, {"a"}, {"b"}] if is_repeated else [{"a"}, {"b"}])


def test_closing_ends_watches() -> None:
    async def main() -> None:
        use_cases, table = await make(MemoryStore(SystemClock()))
        waiting = asyncio.ensure_future(
            anext(aiter(use_cases.watches.watch([WatchPosition(table.table_uuid, 0)])), None)
        )
        await asyncio.sleep(0.01)
        await use_cases.close()
        assert await waiting is None

    asyncio.run(main())


@pytest.mark.parametrize("is_bounded", [True, False], ids=["protected", "control"])
def test_a_watcher_of_a_long_history_is_sent_little_at_first_and_never_much(
    monkeypatch: pytest.MonkeyPatch, is_bounded: bool
) -> None:
    if not is_bounded:
        monkeypatch.setattr(watching, "_LOAD_BYTES", 1 << 40)

    async def sizes(properties: dict[str, str]) -> list[int]:
        store = MemoryStore(SystemClock())
        use_cases, table = await make(store)
        change = Change(table.table_uuid, SnapshotKind.APPEND, 0, -1, allow_empty=True, properties=properties)
        for number in range(300):
            await use_cases.gate.commit(CommitRequest("w", number, (change,)), by=EVERYONE)
        found: list[int] = []
        events = aiter(use_cases.watches.watch([WatchPosition(table.table_uuid, 0)]))
        while sum(found) < 300:
            found.append(len((await asyncio.wait_for(anext(events), 5)).snapshots))
        await events.aclose()  # type: ignore[attr-defined]
        return found

    small = [4, 8, 16, 32, 64, 128, 48]
    assert asyncio.run(sizes({})) == small
    large = asyncio.run(sizes({"text": "x" * 30_000}))
    assert large[0] == 4
    if is_bounded:
        assert set(large[2:-1]) == {2}, "some 64 KiB at once"
    else:
        assert large == small


@pytest.mark.parametrize("is_bounded", [True, False], ids=["protected", "control"])
def test_of_many_watchers_two_load_at_once(monkeypatch: pytest.MonkeyPatch, is_bounded: bool) -> None:
    if not is_bounded:
        monkeypatch.setattr(watching, "_LOADS_AT_ONCE", 1000)
    loading = most = 0

    async def watched(store: Any, work: Any) -> Any:
        nonlocal loading, most
        # To open a watch takes a transaction too.
        if work.__name__ != "read":
            return await run_transaction(store, work)
        loading += 1
        most = max(most, loading)
        try:
            await asyncio.sleep(0)
            return await run_transaction(store, work)
        finally:
            loading -= 1

    async def main() -> None:
        use_cases, table = await make(MemoryStore(SystemClock()))
        await commit(use_cases, table, 0, 8)
        monkeypatch.setattr(watching, "run_transaction", watched)
        watches = [aiter(use_cases.watches.watch([WatchPosition(table.table_uuid, 0)])) for _ in range(20)]
        assert await asyncio.gather(*(ids(each, 8) for each in watches)) == [[*range(1, 9)]] * 20

    asyncio.run(main())
    assert (most == 2) if is_bounded else (most > 2)


@pytest.mark.parametrize("reason", ["uncertain", "attached", "committed"])
def test_polls_come_soon_again_when_a_table_may_have_changed(reason: str) -> None:
    async def main() -> None:
        use_cases, table = await make(MemoryStore(SystemClock()))
        watches = use_cases.watches
        waiting = asyncio.ensure_future(watches.wait_while_quiet())
        await asyncio.sleep(0.01)
        assert not waiting.done(), "the control: nothing has happened"
        if reason == "uncertain":
            watches.uncertain(table.table_uuid)
        elif reason == "attached":
            watches.attached(table.table_uuid, 0)
        else:
            await commit(use_cases, table, 0, 1)
        await asyncio.wait_for(waiting, 5)
        await asyncio.wait_for(watches.wait_while_quiet(), 5)

    asyncio.run(main())


def test_a_commit_whose_answer_was_lost_is_announced_without_watchers_here() -> None:
    async def main() -> None:
        store = MemoryStore(SystemClock())
        use_cases, table = await make(store)
        announced = aiter(store.listen())
        waiting = asyncio.ensure_future(anext(announced))
        await asyncio.sleep(0.01)
        use_cases.watches.uncertain(table.table_uuid)
        await use_cases.watches.step_announce()
        assert table.table_uuid in await asyncio.wait_for(waiting, 5)

    asyncio.run(main())


def test_a_metastore_that_ends_announces_what_it_has_not() -> None:
    async def main() -> None:
        store = MemoryStore(SystemClock())
        use_cases, table = await make(store)
        announced = aiter(store.listen())
        waiting = asyncio.ensure_future(anext(announced))
        background = Background(use_cases)
        background.start()
        await commit(use_cases, table, 0, 1)
        await background.stop()
        assert table.table_uuid in await asyncio.wait_for(waiting, 5)

    asyncio.run(main())
