"""What one writer could do to another, each with its control: the same story without the check of owners.

A story returns what went wrong; the empty text when the rule held.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import LakelogError, PermissionDenied
from lakelog.format.commit.request import CommitRequest, Fence
from lakelog.format.tables.table import TableInfo
from metastore.memory.commits.commits import MemoryCommits
from metastore.postgres.commits.commits import PostgresCommits
from tests.contract.metastore.owned_calls import fresh
from tests.support.metastore.making import append, empty, make_change, make_file, make_table, snapshot_ids
from tests.support.metastore.parties import Parties, open_parties


@pytest.fixture(scope="module", params=["memory", "postgres"])
def parties(request: pytest.FixtureRequest) -> Iterator[Parties]:
    """For all tests here: each uses names of its own."""
    url = request.getfixturevalue("module_url") if request.param == "postgres" else None
    with open_parties(url) as opened:
        yield opened


def attack(call: Callable[[], Any]) -> None:
    """Something that another writer tries; whether it is refused is seen by its harm."""
    with contextlib.suppress(LakelogError):
        call()


def failure_of(call: Callable[[], Any]) -> str:
    try:
        call()
    except LakelogError as error:
        return error.reason
    return ""


def rows_are_written(on: Metastore, table: TableInfo, writer: str, identifier: int) -> str:
    """What comes between a writer and the rows of its next commit."""
    before = len(snapshot_ids(on, table))
    failed = failure_of(lambda: append(on, table, identifier, writer=writer))
    if failed:
        return failed
    return "" if len(snapshot_ids(on, table)) > before else "its rows are lost, although its commit was answered"


def attempt_is_abandoned(parties: Parties) -> str:
    table, name = make_table(parties.root), fresh("w")
    attempt = parties.alice.stage_attempt([table.table_uuid], name).attempt_id
    attack(lambda: parties.bob.abandon_attempt(attempt))
    change = make_change(table, [make_file(attempt)])
    return failure_of(lambda: parties.alice.commit(CommitRequest(name, 1, (change,), attempt)))


def attempt_is_aborted_by_a_repeat(parties: Parties) -> str:
    """A repeat of an applied commit aborts the attempt that it names."""
    table, name = make_table(parties.root), fresh("w")
    append(parties.alice, table, 1, writer=name)
    attempt = parties.alice.stage_attempt([table.table_uuid], name).attempt_id
    change = make_change(table, [make_file(attempt)])
    attack(lambda: parties.bob.commit(CommitRequest(name, 1, (change,), attempt)))
    return failure_of(lambda: parties.alice.commit(CommitRequest(name, 2, (change,), attempt)))


def attempt_is_committed(parties: Parties) -> str:
    """Before its files are complete."""
    table, name = make_table(parties.root), fresh("w")
    attempt = parties.alice.stage_attempt([table.table_uuid], name).attempt_id
    change = make_change(table, [make_file(attempt)])
    attack(lambda: parties.bob.commit(CommitRequest(fresh("bob"), 1, (change,), attempt)))
    return failure_of(lambda: parties.alice.commit(CommitRequest(name, 1, (change,), attempt)))


def identifier_is_taken(parties: Parties) -> str:
    """The next commit under it would be answered as if it had been applied."""
    table, name = make_table(parties.root), fresh("w")
    append(parties.alice, table, 1, writer=name)
    attack(lambda: parties.bob.commit(empty(table, 2, writer=name)))
    return rows_are_written(parties.alice, table, name, 2)


def name_is_registered(parties: Parties) -> str:
    table, name = make_table(parties.root), fresh("w")
    append(parties.alice, table, 1, writer=name)
    attack(lambda: parties.bob.register_writer(name))
    return rows_are_written(parties.alice, table, name, 2)


def job_is_finished(parties: Parties) -> str:
    table = make_table(parties.root)
    parties.root.request_jobs(table.table_uuid, "compact", ["/0"], {"strategy": "full"})
    job = parties.alice.lease_job(["compact"], [table.table_uuid], "a", duration_ms=60_000)
    assert job is not None
    attack(lambda: parties.bob.finish_job(job.job_id, job.epoch))
    return failure_of(lambda: parties.alice.heartbeat_job(job.job_id, job.epoch, 60_000))


def name_of_a_job_is_used(parties: Parties) -> str:
    """The holder's first commit would be answered as if it had been applied."""
    table = make_table(parties.root)
    parties.root.request_jobs(table.table_uuid, "compact", ["/0"], {"strategy": "full"})
    job = parties.alice.lease_job(["compact"], [table.table_uuid], "a", duration_ms=60_000)
    assert job is not None
    fence = Fence(job.lease, job.epoch)
    attack(lambda: parties.bob.commit(empty(table, 1, writer=job.lease, fences=(fence,))))
    return rows_are_written(parties.alice, table, job.lease, 1)


def lease_is_released(parties: Parties) -> str:
    name = fresh("pipeline/flights")
    epoch = parties.alice.acquire_lease(name, "alice-1", 60_000).epoch
    attack(lambda: parties.bob.release_lease(name, epoch))
    return failure_of(lambda: parties.alice.renew_lease(name, epoch, 60_000))


def consumer_is_moved(parties: Parties) -> str:
    """Its reader would be fenced, or miss rows."""
    table = make_table(parties.root)
    append(parties.alice, table, 1, writer=fresh("w"))
    (opened,) = parties.alice.open_consumer("etl", [table.table_uuid], "me")
    attack(lambda: parties.bob.open_consumer("etl", [table.table_uuid], "me"))
    return failure_of(lambda: parties.alice.renew_consumer("etl", {table.table_uuid: opened.epoch}, "me"))


STORIES: dict[Callable[[Parties], str], str] = {
    attempt_is_abandoned: "ATTEMPT_DOOMED",
    attempt_is_aborted_by_a_repeat: "ATTEMPT_DOOMED",
    attempt_is_committed: "ATTEMPT_COMMITTED",
    identifier_is_taken: "its rows are lost, although its commit was answered",
    name_is_registered: "WRITER_FENCED",
    job_is_finished: "JOB_FENCED",
    name_of_a_job_is_used: "its rows are lost, although its commit was answered",
    lease_is_released: "LEASE_FENCED",
    consumer_is_moved: "CONSUMER_FENCED",
}
"""What happens in each without the check."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_no_writer_stops_another(parties: Parties, story: Callable[[Parties], str]) -> None:
    assert story(parties) == ""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_control_without_the_check_of_owners(
    parties: Parties, story: Callable[[Parties], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metastore.ownership._check", lambda *_: None)
    assert story(parties) == STORIES[story]


def name_is_taken_by_a_refused_commit(parties: Parties) -> str:
    table, name = make_table(parties.root), fresh("w")
    missing = CommitRequest(name, 1, (make_change(table, [make_file("f" * 32)]),), "f" * 32)
    assert failure_of(lambda: parties.bob.commit(missing)) == "ATTEMPT_NOT_FOUND"
    assert failure_of(lambda: parties.bob.stage_attempt(["e" * 32], name)) == "TABLE_NOT_FOUND"
    return rows_are_written(parties.alice, table, name, 1)


def test_a_refused_commit_takes_no_name(parties: Parties) -> None:
    assert name_is_taken_by_a_refused_commit(parties) == ""


@pytest.mark.parametrize("transaction", [MemoryCommits, PostgresCommits])
def test_control_with_a_claim_before_the_decision(
    parties: Parties, transaction: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock: Any = transaction.lock_group  # type: ignore[attr-defined]
    seen = []

    async def lock_group(self: Any, keys: Any) -> Any:
        seen.append(keys)
        await self.claim_writers(dict.fromkeys(keys.writers, "bob"))
        return await lock(self, keys)

    monkeypatch.setattr(transaction, "lock_group", lock_group)
    found = name_is_taken_by_a_refused_commit(parties)
    assert found == ("NOT_OWNER" if seen else "")


def test_who_has_given_a_job_back_is_fenced(parties: Parties) -> None:
    """It is no refusal of rights: nothing about the caller has changed."""
    table = make_table(parties.root)
    parties.root.request_jobs(table.table_uuid, "compact", ["/0"], {"strategy": "full"})
    job = parties.alice.lease_job(["compact"], [table.table_uuid], "a", duration_ms=60_000)
    assert job is not None
    late = empty(table, 1, writer=job.lease, fences=(Fence(job.lease, job.epoch),))
    parties.alice.finish_job(job.job_id, job.epoch, work_left=True)
    assert failure_of(lambda: parties.alice.commit(late)) == "JOB_FENCED"
    assert failure_of(lambda: parties.bob.commit(empty(table, 1, writer=job.lease))) == "NOT_OWNER"
    assert parties.bob.lease_job(["compact"], [table.table_uuid], "b", duration_ms=60_000) is not None
    assert failure_of(lambda: parties.alice.commit(late)) == "LEASE_FENCED"


def a_compactor_is_fenced(parties: Parties) -> str:
    """By one registration of its job's name, for ever: its commits are fenced by the epoch of the job alone."""
    table = make_table(parties.root)
    parties.root.request_jobs(table.table_uuid, "compact", ["/0"], {"strategy": "full"})
    job = parties.alice.lease_job(["compact"], [table.table_uuid], "a", duration_ms=60_000)
    assert job is not None
    attack(lambda: parties.bob.register_writer(job.lease))
    return rows_are_written(parties.alice, table, job.lease, 1)


def test_no_one_fences_a_compactor(parties: Parties) -> None:
    assert a_compactor_is_fenced(parties) == ""


def test_control_with_names_of_jobs_for_all(parties: Parties, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metastore.commits.writers.check_registrable", lambda writer: None)
    monkeypatch.setattr("metastore.ownership._check", lambda *_: None)
    assert a_compactor_is_fenced(parties) == "WRITER_FENCED"


def test_what_was_opened_without_tokens_belongs_to_no_one(migrated_url: str) -> None:
    """As what was there before owners were recorded: everyone goes on with it, and names get an owner then."""
    with open_parties(migrated_url, identified=False) as before:
        table = make_table(before.alice)
        append(before.alice, table, 1)
        epoch = before.alice.register_writer("w")
        append_as_registered(before.alice, table, 2, epoch)
        attempt = before.alice.stage_attempt([table.table_uuid], "w").attempt_id
        before.alice.open_consumer("etl", [table.table_uuid], "me")
        lease = before.alice.acquire_lease("l", "me", 60_000)
        before.alice.request_jobs(table.table_uuid, "compact", ["/0"], {"strategy": "full"})
        job = before.alice.lease_job(["compact"], [table.table_uuid], "me", duration_ms=60_000)
        assert job is not None
    with open_parties(migrated_url) as after:
        after.bob.abandon_attempt(attempt)
        after.bob.renew_lease("l", lease.epoch, 60_000)
        after.bob.commit(empty(table, 1, writer=job.lease, fences=(Fence(job.lease, job.epoch),)))
        after.bob.finish_job(job.job_id, job.epoch)
        append_as_registered(after.bob, table, 3, epoch)
        after.bob.open_consumer("etl", [table.table_uuid], "me")
        acts: tuple[Callable[[], object], ...] = (
            lambda: after.alice.register_writer("w"),
            lambda: after.alice.open_consumer("etl", [table.table_uuid], "me"),
        )
        for act in acts:
            with pytest.raises(PermissionDenied, match="'bob'"):
                act()
    with open_parties(migrated_url, identified=False) as later:
        # Without tokens nothing is refused, and no owner changes.
        append_as_registered(later.alice, table, 4, epoch)
        later.alice.open_consumer("etl", [table.table_uuid], "me")
    with open_parties(migrated_url) as again, pytest.raises(PermissionDenied, match="'bob'"):
        again.alice.open_consumer("etl", [table.table_uuid], "me")


def append_as_registered(on: Metastore, table: TableInfo, identifier: int, epoch: int) -> None:
    attempt = on.stage_attempt([table.table_uuid], "w").attempt_id
    change = make_change(table, [make_file(attempt)])
    on.commit(CommitRequest("w", identifier, (change,), attempt, epoch=epoch))
