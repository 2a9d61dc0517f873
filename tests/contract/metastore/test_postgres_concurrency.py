"""Two metastores on one Postgres: what only happens when transactions overlap. With each protection, its control."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, ClassVar

import pytest

from lakelog.client.metastore.metastore import Watch, WatchPosition
from lakelog.errors import CommitConflict, Fenced, LakelogError, Unavailable
from lakelog.format.commit.facts import FileFacts
from lakelog.format.commit.request import INPUT_GONE, CommitRequest, RemoveFiles
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableInfo
from metastore.postgres.store import PostgresStore, PostgresTransaction
from metastore.snapshots import watching
from metastore.testing import InProcessMetastore
from tests.contract.metastore.pausing import paused_store
from tests.support.metastore.making import append, compaction, empty, make_change, make_file, make_table, snapshot_ids
from tests.support.metastore.opening import open_in_process


@pytest.fixture
def pair_of(migrated_url: str) -> Iterator[Callable[[], tuple[InProcessMetastore, InProcessMetastore]]]:
    """Opens them when a test has set what they read at their start."""
    with ExitStack() as opened:
        yield lambda: (
            opened.enter_context(closing(open_in_process(migrated_url))),
            opened.enter_context(closing(open_in_process(migrated_url))),
        )


@pytest.fixture
def pair(
    pair_of: Callable[[], tuple[InProcessMetastore, InProcessMetastore]],
) -> tuple[InProcessMetastore, InProcessMetastore]:
    return pair_of()


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except LakelogError as error:
        return error


def together(*calls: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(outcome, calls))


def test_many_writers_on_one_table(pair: tuple[InProcessMetastore, InProcessMetastore]) -> None:
    """C1: ids without gaps or doubles, whoever commits."""
    table = make_table(pair[0])

    def write(number: int) -> None:
        for n in range(25):
            append(pair[number % 2], table, n, writer=f"writer {number}", names=f"{number}")

    assert together(*(lambda number=number: write(number) for number in range(8))) == [None] * 8
    snapshots = pair[0].list_snapshots(table.table_uuid).snapshots
    assert [snapshot.snapshot_id for snapshot in snapshots] == list(range(1, 201))
    assert [s.parent_uuid for s in snapshots[1:]] == [s.snapshot_uuid for s in snapshots[:-1]]
    assert [s.total_files for s in snapshots] == list(range(1, 201))
    times = [s.committed_at_ms for s in snapshots]
    assert times == sorted(times)
    for number in range(8):
        own = [s.identifier for s in snapshots if s.writer == f"writer {number}"]
        assert own == list(range(25))
    files = pair[1].plan(PlanRequest(table.table_uuid)).files
    assert sorted(files.column("file_id").to_pylist()) == list(range(1, 201))


def removal(table: TableInfo, attempt: str, writer: str, *file_ids: int) -> CommitRequest:
    change = make_change(table, [make_file(attempt)], kind=SnapshotKind.OVERWRITE, remove=RemoveFiles(file_ids))
    return CommitRequest(writer, 1, (change,), attempt)


def race_for_a_file(one: InProcessMetastore, other: InProcessMetastore) -> list[Any]:
    table = make_table(one)
    append(one, table, 1, names="abc")
    attempts = [one.stage_attempt([table.table_uuid], "c").attempt_id for _ in range(2)]
    return together(
        lambda: one.commit(removal(table, attempts[0], "c0", 1, 2)),
        lambda: other.commit(removal(table, attempts[1], "c1", 2, 3)),
    )


def test_two_compactors_at_one_file(pair: tuple[InProcessMetastore, InProcessMetastore]) -> None:
    """C5, C6: one of them is told that its group was dropped, and its attempt is aborted."""
    for _ in range(20):
        table = make_table(pair[0])
        append(pair[0], table, 1, names="abc")
        attempts = [pair[0].stage_attempt([table.table_uuid], "c").attempt_id for _ in range(2)]
        requests = [
            CommitRequest(f"c{n}", 1, (compaction(table, [make_file(attempts[n])], inputs),), attempts[n])
            for n, inputs in enumerate([(1, 2), (1, 2, 3)])
        ]
        results = together(*(partial(pair[n].commit, requests[n]) for n in range(2)))
        (loser,) = [n for n in range(2) if results[n].results[0].dropped]
        (dropped,) = results[loser].results[0].dropped
        assert (dropped.reason, dropped.snapshot_id, dropped.other_writer) == (INPUT_GONE, 2, f"c{1 - loser}")
        assert results[1 - loser].results[0].snapshot_id == 2
        pair[0].abandon_attempt(attempts[loser])
        with pytest.raises(CommitConflict, match="committed"):
            pair[0].abandon_attempt(attempts[1 - loser])


def test_two_that_remove_one_file(pair: tuple[InProcessMetastore, InProcessMetastore]) -> None:
    """C5, C6."""
    for _ in range(20):
        assert [type(result) for result in race_for_a_file(*pair)].count(CommitConflict) == 1


def commit_and_meanwhile(
    url: str,
    other: InProcessMetastore,
    store: type[PostgresStore],
    request: CommitRequest,
    act: Callable[[], Any],
    *,
    held_back: bool,
) -> tuple[Any, Any]:
    """Commits, and acts between the look and the write of the commit; the outcomes of both.

    `held_back`: the act has to wait for the commit, so that it is not worth while to wait for the act.
    """
    transaction: Any = store.transaction_type
    slow = open_in_process(url, store_type=store)
    try:
        with ThreadPoolExecutor(2) as pool:
            commit = pool.submit(outcome, lambda: slow.commit(request))
            assert transaction.looked.wait(10)
            acted = pool.submit(outcome, act)
            wait([acted], 0.3 if held_back else 10)
            transaction.go_on.set()
            return commit.result(10), acted.result(10)
    finally:
        slow.close()


class WithoutHeadLock(PostgresTransaction):
    """Control of C1: reads heads without locking them, and goes on from what it saw when it is told to."""

    lock_heads_sql = PostgresTransaction.lock_heads_sql.replace("FOR UPDATE", "")
    looked: ClassVar[threading.Event]
    go_on: ClassVar[threading.Event]

    async def find_files(self, table_id: int, file_ids: Sequence[int]) -> list[FileFacts]:
        files = await super().find_files(table_id, file_ids)
        self.looked.set()
        while not self.go_on.is_set():
            await asyncio.sleep(0.005)
        return files


class WithHeadLock(WithoutHeadLock):
    """The same with the lock."""

    lock_heads_sql = PostgresTransaction.lock_heads_sql


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_without_the_lock_of_heads_a_commit_rests_on_what_is_no_longer_so(
    migrated_url: str, pair: tuple[InProcessMetastore, InProcessMetastore], protected: bool
) -> None:
    """C1: what the second saw, the first changes meanwhile; only the key of snapshots keeps it from a rewrite."""
    store = paused_store(WithHeadLock if protected else WithoutHeadLock)
    table = make_table(pair[0])
    append(pair[0], table, 1, names="abc")
    attempts = [pair[0].stage_attempt([table.table_uuid], "c").attempt_id for _ in range(2)]
    late, first = commit_and_meanwhile(
        migrated_url,
        pair[1],
        store,
        removal(table, attempts[1], "c1", 2, 3),
        lambda: pair[1].commit(removal(table, attempts[0], "c0", 1, 2)),
        held_back=protected,
    )
    # With the lock the other waits for it and is told of it. Without, it is the other that comes first.
    assert isinstance(first, CommitConflict) is protected
    assert isinstance(late, LakelogError) is not protected
    assert not isinstance(late, CommitConflict)


def test_repeats_while_the_first_is_in_flight(pair: tuple[InProcessMetastore, InProcessMetastore]) -> None:
    """C2."""
    table = make_table(pair[0])
    for n in range(10):
        attempt = pair[0].stage_attempt([table.table_uuid], "w").attempt_id
        request = CommitRequest("w", n, (make_change(table, [make_file(attempt, f"f{n}")]),), attempt)
        results = together(*(lambda k=k, r=request: pair[k % 2].commit(r) for k in range(8)))
        assert all(result == results[0] for result in results)
    assert snapshot_ids(pair[0], table) == list(range(1, 11))


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_an_attempt_is_not_aborted_while_it_is_committed(
    migrated_url: str, pair: tuple[InProcessMetastore, InProcessMetastore], protected: bool
) -> None:
    """C4: or a collector would delete live files."""
    table = make_table(pair[0])
    attempt = pair[0].stage_attempt([table.table_uuid], "w").attempt_id
    request = CommitRequest("w", 1, (make_change(table, [make_file(attempt)]),), attempt)
    unlocked = PostgresTransaction.lock_attempts_sql.replace("FOR UPDATE", "")
    store = paused_store() if protected else paused_store(lock_attempts_sql=unlocked)
    committed, abandoned = commit_and_meanwhile(
        migrated_url, pair[1], store, request, lambda: pair[1].abandon_attempt(attempt), held_back=protected
    )
    assert not isinstance(committed, LakelogError)
    # Who was told that the attempt is given up deletes its files.
    assert isinstance(abandoned, CommitConflict) is protected


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_once_registered_no_older_commit_appears(
    migrated_url: str, pair: tuple[InProcessMetastore, InProcessMetastore], protected: bool
) -> None:
    """C3: the zombie's commit is either visible before the newcomer has its epoch, or refused."""
    table = make_table(pair[0])
    store = paused_store() if protected else paused_store(share_writers_sql="SELECT %s::bigint[]")

    def take_over() -> list[int]:
        pair[1].register_writer("w")
        return snapshot_ids(pair[1], table)

    committed, seen = commit_and_meanwhile(
        migrated_url, pair[1], store, empty(table, 1), take_over, held_back=protected
    )
    assert not isinstance(committed, LakelogError)
    assert (seen == [1]) is protected
    assert isinstance(outcome(lambda: pair[0].commit(empty(table, 2))), Fenced)


@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_the_check_of_epochs_stops_zombies(
    pair: tuple[InProcessMetastore, InProcessMetastore], monkeypatch: pytest.MonkeyPatch, protected: bool
) -> None:
    """C3."""
    if not protected:
        monkeypatch.setattr("lakelog.format.commit.rules._check_writer_epoch", lambda request, epoch: None)
    table = make_table(pair[0])
    zombie = pair[0].register_writer("w")
    pair[1].register_writer("w")
    refused = isinstance(outcome(lambda: pair[0].commit(empty(table, 1, epoch=zombie))), Fenced)
    assert refused is protected


def test_tables_are_locked_in_one_order(pair: tuple[InProcessMetastore, InProcessMetastore]) -> None:
    """C1: commits over the same tables, named in either order, never wait for each other in a circle."""
    one, other = make_table(pair[0]), make_table(pair[0])

    def write(number: int) -> None:
        tables = (one, other) if number % 2 else (other, one)
        for n in range(20):
            changes = tuple(make_change(table, allow_empty=True) for table in tables)
            pair[number % 2].commit(CommitRequest(f"w{number}", n, changes))

    assert together(*(lambda number=number: write(number) for number in range(6))) == [None] * 6
    assert snapshot_ids(pair[0], one) == snapshot_ids(pair[0], other) == list(range(1, 121))


def test_a_lease_is_taken_by_one_of_many(pair: tuple[InProcessMetastore, InProcessMetastore]) -> None:
    for n in range(10):
        grants = together(*(lambda k=k, n=n: pair[k % 2].acquire_lease(f"l{n}", f"h{k}", 60_000) for k in range(6)))
        (winner,) = [grant for grant in grants if grant.acquired]
        assert {grant.holder for grant in grants} == {winner.holder}
        assert {grant.epoch for grant in grants} == {winner.epoch}


def follow(watch: Watch) -> tuple[threading.Event, threading.Thread]:
    """Reads a watch in a thread; the event tells that something came."""
    reported = threading.Event()

    def read() -> None:
        for _ in watch:
            reported.set()

    reader = threading.Thread(target=read)
    reader.start()
    return reported, reader


def test_the_commit_of_one_metastore_is_pushed_by_the_other(
    pair: tuple[InProcessMetastore, InProcessMetastore],
) -> None:
    table = make_table(pair[0])
    watch = pair[1].watch([WatchPosition(table.table_uuid, 0)])
    reported, reader = follow(watch)
    threading.Event().wait(0.3)
    pair[0].commit(empty(table, 1))
    # Below the interval of the poll, which is the truth behind it.
    assert reported.wait(1.0)
    watch.close()
    reader.join()


def only_poll_after(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Nothing counts as recent, so that polls are as rare as they may be."""
    monkeypatch.setattr(watching, "_STIRRED_S", 0.0)
    monkeypatch.setattr(watching, "QUIET_POLL_S", seconds)


@pytest.mark.parametrize("is_quiet", [False, True])
def test_a_lost_announcement_is_found_by_polling(
    pair_of: Callable[[], tuple[InProcessMetastore, InProcessMetastore]],
    monkeypatch: pytest.MonkeyPatch,
    is_quiet: bool,
) -> None:
    if is_quiet:
        only_poll_after(monkeypatch, 0.5)
    pair = pair_of()

    async def say_nothing(self: PostgresStore, table_uuids: object) -> None: ...

    monkeypatch.setattr(PostgresStore, "announce", say_nothing)
    table = make_table(pair[0])
    watch = pair[1].watch([WatchPosition(table.table_uuid, 0)])
    reported, reader = follow(watch)
    threading.Event().wait(0.3)
    pair[0].commit(empty(table, 1))
    assert reported.wait(10.0)
    watch.close()
    reader.join()


def test_an_announcement_that_fails_is_sent_again(
    pair_of: Callable[[], tuple[InProcessMetastore, InProcessMetastore]], monkeypatch: pytest.MonkeyPatch
) -> None:
    only_poll_after(monkeypatch, 3600.0)
    pair = pair_of()
    table = make_table(pair[0])
    watch = pair[1].watch([WatchPosition(table.table_uuid, 0)])
    reported, reader = follow(watch)
    threading.Event().wait(0.3)
    announce, failures = PostgresStore.announce, [Unavailable("the database is away for a moment")]

    async def fail_once(self: PostgresStore, names: Collection[str]) -> None:
        if failures:
            raise failures.pop()
        await announce(self, names)

    monkeypatch.setattr(PostgresStore, "announce", fail_once)
    pair[0].commit(empty(table, 1))
    assert reported.wait(20.0)
    watch.close()
    reader.join()
