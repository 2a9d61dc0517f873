"""Attempts that were opened for one commit: which are aborted with it, and whose writers are silent."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, Fenced, InvalidArgument
from lakelog.format.commit.facts import AttemptState
from lakelog.format.commit.request import CommitRequest, CommitResult
from lakelog.format.tables.table import TableInfo
from metastore.logs import publishing
from metastore.memory.store import MemoryTransaction
from metastore.postgres.store import PostgresTransaction
from metastore.testing import InProcessMetastore
from tests.support.metastore.making import append, empty, make_change, make_file, make_table
from tests.support.metastore.opening import open_in_process

UNKNOWN = "f" * 32
OPEN, COMMITTED, ABORTED = AttemptState.OPEN, AttemptState.COMMITTED, AttemptState.ABORTED


def stage(
    metastore: Metastore, *tables: TableInfo, writer: str = "w", identifier: int | None = 5, epoch: int = 0
) -> str:
    uuids = [table.table_uuid for table in tables]
    return metastore.stage_attempt(uuids, writer, identifier=identifier, epoch=epoch).attempt_id


def commit(
    metastore: Metastore, attempt: str, *tables: TableInfo, writer: str = "w", identifier: int = 5
) -> CommitResult:
    changes = tuple(make_change(table, [make_file(attempt)]) for table in tables)
    return metastore.commit(CommitRequest(writer, identifier, changes, attempt))


def states(metastore: Metastore, table: TableInfo, *attempts: str) -> list[AttemptState]:
    """As they are log_metastore."""
    found = metastore.find_used_files(table.table_uuid, [f"data/{each}/x.parquet" for each in attempts])
    known = {each.attempt_id: each.state for each in found.attempts}
    return [known[each] for each in attempts]


def reported(metastore: Metastore, table: TableInfo, *attempts: str) -> list[AttemptState]:
    """As readers of the log see them."""
    found = metastore.find_attempts(table.table_uuid, attempts)
    return [found[each].state for each in attempts]


@pytest.fixture(params=[True, False], ids=["protected", "control"])
def aborts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a commit aborts the other attempts at it."""
    if not request.param:
        monkeypatch.setattr("metastore.commits.group._abort_rivals", lambda request, state: None)
    return bool(request.param)


def test_a_commit_aborts_the_other_attempts_at_it(metastore: Metastore, aborts: bool) -> None:
    table = make_table(metastore)
    dead, retry, rival = (stage(metastore, table) for _ in range(3))
    others = [
        stage(metastore, table, identifier=6),
        stage(metastore, table, identifier=None),
        stage(metastore, table, writer="other"),
    ]
    commit(metastore, retry, table)
    left = ABORTED if aborts else OPEN
    assert states(metastore, table, dead, retry, rival) == [left, COMMITTED, left]
    assert states(metastore, table, *others) == [OPEN] * 3
    # Even if it were not aborted: it is known that it never will be committed.
    assert reported(metastore, table, dead, retry, rival) == [ABORTED, COMMITTED, ABORTED]
    assert reported(metastore, table, *others) == [OPEN] * 3


def test_an_attempt_that_was_aborted_by_its_own_commit_gets_the_result(metastore: Metastore) -> None:
    """Its writer has not got the answer of its first try, and tries once more."""
    table = make_table(metastore)
    first, second = stage(metastore, table), stage(metastore, table)
    result = commit(metastore, second, table)
    assert commit(metastore, first, table) == result
    assert commit(metastore, second, table) == result
    assert states(metastore, table, first) == [ABORTED]


def test_an_attempt_that_was_aborted_by_its_own_commit_can_be_joined_up_to_the_answer(metastore: Metastore) -> None:
    table, other = make_table(metastore), make_table(metastore)
    slow = stage(metastore, table)
    done = commit(metastore, stage(metastore, table, other), table, other)
    (joined,) = metastore.stage_attempt([other.table_uuid], "w", attempt_id=slow).tables
    assert joined.table_uuid == other.table_uuid
    assert commit(metastore, slow, table, other) == done
    # Who was given up gets no further.
    given_up = stage(metastore, table, identifier=9)
    metastore.abandon_attempt(given_up)
    with pytest.raises(CommitConflict, match="no table can join it"):
        metastore.stage_attempt([other.table_uuid], "w", attempt_id=given_up)


@pytest.mark.parametrize("is_reported", [True, False], ids=["protected", "control"])
def test_an_attempt_that_is_opened_after_its_commit_is_reported_as_aborted(
    metastore: Metastore, monkeypatch: pytest.MonkeyPatch, is_reported: bool
) -> None:
    """Else its rows, which are old, hide newer ones from readers."""
    if not is_reported:
        judge = publishing._judge
        monkeypatch.setattr(publishing, "_judge", lambda seen: judge(replace(seen, is_over=False)))
    table = make_table(metastore)
    done = stage(metastore, table)
    commit(metastore, done, table)
    late = stage(metastore, table)
    seen = ABORTED if is_reported else OPEN
    assert (states(metastore, table, late), reported(metastore, table, late)) == ([OPEN], [seen])
    # It is open, so that a transaction gets to the answer.
    assert commit(metastore, late, table).attempt_id == done


def test_a_commit_without_files_aborts_as_well(metastore: Metastore) -> None:
    table = make_table(metastore)
    dead = stage(metastore, table)
    metastore.commit(empty(table, 5))
    assert states(metastore, table, dead) == [ABORTED]


def test_a_commit_that_is_refused_aborts_nothing(metastore: Metastore) -> None:
    table = make_table(metastore)
    first, second = stage(metastore, table), stage(metastore, table)
    request = CommitRequest("w", 5, (make_change(table, [make_file(second)], schema_id=7),), second)
    with pytest.raises(CommitConflict):
        metastore.commit(request)
    assert states(metastore, table, first, second) == [OPEN, OPEN]


def test_the_same_number_at_another_table_is_another_commit(metastore: Metastore) -> None:
    table, other, third = (make_table(metastore) for _ in range(3))
    at_other, at_both = stage(metastore, other), stage(metastore, table, other)
    commit(metastore, stage(metastore, table, third), table)
    assert states(metastore, other, at_other, at_both) == [OPEN, ABORTED]
    commit(metastore, at_other, other)


def test_commits_that_are_sent_ahead_abort_only_their_own(metastore: Metastore) -> None:
    table = make_table(metastore)
    staged = metastore.stage_attempt([table.table_uuid], "w", count=4, identifier=1)
    attempts = [staged.attempt_id, *staged.further_ids]
    dead = [stage(metastore, table, identifier=number) for number in (1, 4)]
    pipeline = metastore.open_commit_pipeline()
    answers = [
        pipeline.submit(CommitRequest("w", number, (make_change(table, [make_file(attempt)]),), attempt))
        for number, attempt in enumerate(attempts, 1)
    ]
    assert [answer.result().results[0].snapshot_id for answer in answers] == [1, 2, 3, 4]
    pipeline.close()
    assert states(metastore, table, *attempts, *dead) == [COMMITTED] * 4 + [ABORTED] * 2


def test_rivals_in_one_group_get_one_result(metastore: Metastore) -> None:
    table = make_table(metastore)
    rivals = [stage(metastore, table) for _ in range(4)]
    pipeline = metastore.open_commit_pipeline()
    answers = [
        pipeline.submit(CommitRequest("w", 5, (make_change(table, [make_file(attempt)]),), attempt))
        for attempt in rivals
    ]
    assert len({answer.result() for answer in answers}) == 1
    pipeline.close()
    assert states(metastore, table, *rivals) == [COMMITTED, ABORTED, ABORTED, ABORTED]


def test_a_higher_epoch_aborts_the_attempts_of_lower_ones(metastore: Metastore) -> None:
    table = make_table(metastore)
    before = stage(metastore, table)
    first = metastore.register_writer("w")
    zombie = stage(metastore, table, epoch=first)
    unknown, other = stage(metastore, table, identifier=None), stage(metastore, table, writer="other")
    second = metastore.register_writer("w")
    now = stage(metastore, table, epoch=second)
    assert states(metastore, table, before, zombie) == [ABORTED, ABORTED]
    assert states(metastore, table, unknown, other, now) == [OPEN] * 3
    late = stage(metastore, table, epoch=first)
    assert reported(metastore, table, late, now) == [ABORTED, OPEN], "no commit of it can be applied"
    with pytest.raises(Fenced):
        commit(metastore, zombie, table)


def test_without_aborting_the_attempts_of_lower_epochs_stay_open(
    metastore: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test before."""

    async def leave(self: object, writer: str, epoch: int) -> None:
        pass

    for transaction in (MemoryTransaction, PostgresTransaction):
        monkeypatch.setattr(transaction, "abort_fenced_attempts", leave)
    table = make_table(metastore)
    zombie = stage(metastore, table, epoch=metastore.register_writer("w"))
    metastore.register_writer("w")
    assert states(metastore, table, zombie) == [OPEN]


def test_only_silent_writers_are_reported_as_such(metastore: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(metastore)
    done = append(metastore, table, 1).attempt_id
    opened, given_up = (stage(metastore, table) for _ in range(2))
    metastore.abandon_attempt(given_up)
    asked = [done, opened, given_up, UNKNOWN]

    def silent() -> list[bool]:
        found = metastore.find_attempts(table.table_uuid, asked)
        return [found[each].is_silent for each in asked]

    assert silent() == [False] * 4
    monkeypatch.setattr(publishing, "SILENT_MS", -1)
    assert silent() == [False, True, False, False]
    # Silence decides nothing: it may be committed.
    assert states(metastore, table, opened) == [OPEN]
    commit(metastore, opened, table)


def test_who_renews_is_not_silent(log_metastore: InProcessMetastore) -> None:
    table = make_table(log_metastore)
    quiet, renewed, given_up = (stage(log_metastore, table) for _ in range(3))
    log_metastore.abandon_attempt(given_up)
    time.sleep(0.2)
    assert sorted(log_metastore.renew_attempts([renewed, given_up, UNKNOWN])) == [renewed]

    async def ask() -> dict[str, int]:
        async with log_metastore.store.transaction() as tx:
            found = await tx.find_sent_attempts(table.table_uuid, [quiet, renewed])
            return {attempt: each.quiet_ms for attempt, each in found.items()}

    found = log_metastore.run(ask())
    assert found[quiet] >= found[renewed] + 150


@pytest.mark.parametrize("sees_locks", [True, False], ids=["protected", "control"])
def test_a_commit_that_takes_long_is_a_sign_of_life(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch, sees_locks: bool
) -> None:
    """Also for readers at another metastore. No renewal is noted meanwhile: the commit has locked its attempt."""
    record, begun, release = PostgresTransaction.record_group, threading.Event(), threading.Event()

    async def record_group(self: PostgresTransaction, records: Any) -> None:
        begun.set()
        while not release.is_set():
            await asyncio.sleep(0.01)
        await record(self, records)

    metastore, other = open_in_process(migrated_url), open_in_process(migrated_url)
    table = make_table(metastore)
    monkeypatch.setattr(PostgresTransaction, "record_group", record_group)
    monkeypatch.setattr(publishing, "SILENT_MS", -1)
    if not sees_locks:
        monkeypatch.setattr(PostgresTransaction, "find_busy_attempts", MemoryTransaction.find_busy_attempts)
    try:
        attempt, quiet = stage(metastore, table), stage(metastore, table, identifier=6)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(commit, metastore, attempt, table)
            assert begun.wait(30)
            assert sorted(other.renew_attempts([attempt, quiet])) == sorted([attempt, quiet])
            found = other.find_attempts(table.table_uuid, [attempt, quiet])
            release.set()
            running.result(30)
        assert (found[attempt].state, found[attempt].is_silent) == (OPEN, not sees_locks)
        assert found[quiet].is_silent
        assert reported(other, table, attempt) == [COMMITTED]
    finally:
        release.set()
        metastore.close()
        other.close()


def test_attempts_say_when_they_were_opened(metastore: Metastore) -> None:
    """By the clock of the commits."""
    table = make_table(metastore)
    snapshots = []
    attempts = []
    for number in range(2):
        time.sleep(0.005)
        attempts.append(stage(metastore, table, identifier=10 + number))
        time.sleep(0.005)
        append(metastore, table, number)
        snapshots.append(metastore.list_snapshots(table.table_uuid, newest=True, limit=1).snapshots[-1])
    found = metastore.find_attempts(table.table_uuid, attempts)
    first, second = (found[each].opened_ms for each in attempts)
    assert first < snapshots[0].committed_at_ms < second < snapshots[1].committed_at_ms


def test_bad_questions_are_refused(metastore: Metastore) -> None:
    table = make_table(metastore)
    with pytest.raises(InvalidArgument, match="Give 1 to 1000 at once"):
        metastore.renew_attempts([])
    with pytest.raises(InvalidArgument, match="Give 1 to 1000 at once"):
        metastore.renew_attempts([UNKNOWN] * 1001)
    with pytest.raises(InvalidArgument, match="attempt_ids"):
        metastore.renew_attempts(["nothing"])
    for identifier, count in ((-1, 1), (2**63 - 2, 3)):
        with pytest.raises(InvalidArgument, match="identifier"):
            metastore.stage_attempt([table.table_uuid], "w", identifier=identifier, count=count)
    with pytest.raises(InvalidArgument, match="epoch"):
        metastore.stage_attempt([table.table_uuid], "w", identifier=1, epoch=-1)
    with pytest.raises(InvalidArgument, match="Say it when the attempt is opened"):
        metastore.stage_attempt([table.table_uuid], "w", identifier=1, attempt_id=stage(metastore, table))
