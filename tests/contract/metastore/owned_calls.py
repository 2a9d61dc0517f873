"""Each call that acts on what someone owns: how alice opens it, and the call that only she and admins may make."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.request import CommitRequest, Fence
from lakelog.format.jobs.job import COMPACT, FULL, PURGE, STRATEGY, Job
from lakelog.format.jobs.work import Pipeline
from lakelog.format.log.state import PublishReport, to_publisher_lease
from lakelog.format.retention.consumer import ConsumerPosition
from lakelog.format.tables.table import TableInfo
from tests.contract.metastore.changelog_jobs import commit_open, lease, make_request
from tests.contract.metastore.log_tables import make_log_table
from tests.support.metastore.making import append, empty, make_change, make_file, make_table
from tests.support.metastore.parties import Parties

Call: TypeAlias = Callable[[Metastore], Any]
Prepare: TypeAlias = Callable[[Parties], Call]

_numbers = itertools.count(1)
_MINUTE_MS = 60_000


def fresh(prefix: str) -> str:
    """A name that no one has used."""
    return f"{prefix}-{next(_numbers)}"


def commit_alone(metastore: Metastore, request: CommitRequest) -> Any:
    return metastore.commit(request)


def commit_by_stream(metastore: Metastore, request: CommitRequest) -> Any:
    pipeline = metastore.open_commit_pipeline()
    try:
        return pipeline.submit(request).result(30)
    finally:
        pipeline.close()


def _job(parties: Parties, kind: str = COMPACT) -> tuple[TableInfo, Job]:
    """A job that alice holds."""
    table = make_table(parties.root)
    if kind == PURGE:
        append(parties.alice, table, 1, writer=fresh("w"))
        parties.root.drop_table(table.name)
        tables = []
    else:
        parties.root.request_jobs(table.table_uuid, COMPACT, ["/0"], {STRATEGY: FULL})
        tables = [table.table_uuid]
    job = parties.alice.lease_job([kind], tables, "alice-1", duration_ms=_MINUTE_MS, wait_ms=5000)
    assert job is not None
    return table, job


def join_attempt(parties: Parties) -> Call:
    table, other, writer = make_table(parties.root), make_table(parties.root), fresh("w")
    attempt = parties.alice.stage_attempt([table.table_uuid], writer).attempt_id
    return lambda on: on.stage_attempt([other.table_uuid], fresh("own"), attempt_id=attempt)


def stage_under_name(parties: Parties) -> Call:
    table, writer = make_table(parties.root), fresh("w")
    append(parties.alice, table, 1, writer=writer)
    return lambda on: on.stage_attempt([table.table_uuid], writer)


def stage_under_job(parties: Parties) -> Call:
    table, job = _job(parties)
    return lambda on: on.stage_attempt([table.table_uuid], job.lease)


def abandon(parties: Parties) -> Call:
    table = make_table(parties.root)
    attempt = parties.alice.stage_attempt([table.table_uuid], fresh("w")).attempt_id
    return lambda on: on.abandon_attempt(attempt)


def register(parties: Parties) -> Call:
    """A name that alice has registered."""
    writer = fresh("w")
    parties.alice.register_writer(writer)
    return lambda on: on.register_writer(writer)


def register_used(parties: Parties) -> Call:
    """A name that alice has used without registering it."""
    table, writer = make_table(parties.root), fresh("w")
    append(parties.alice, table, 1, writer=writer)
    return lambda on: on.register_writer(writer)


def commit_attempt(commit: Callable[[Metastore, CommitRequest], Any]) -> Prepare:
    def prepare(parties: Parties) -> Call:
        table = make_table(parties.root)
        attempt = parties.alice.stage_attempt([table.table_uuid], fresh("w")).attempt_id
        request = CommitRequest(fresh("own"), 1, (make_change(table, [make_file(attempt)]),), attempt)
        return lambda on: commit(on, request)

    return prepare


def repeat_with_attempt(commit: Callable[[Metastore, CommitRequest], Any]) -> Prepare:
    """A commit that was applied, repeated with an open attempt, which that would abort."""

    def prepare(parties: Parties) -> Call:
        table, writer = make_table(parties.root), fresh("w")
        append(parties.alice, table, 1, writer=writer)
        attempt = parties.alice.stage_attempt([table.table_uuid], writer).attempt_id
        request = CommitRequest(writer, 1, (make_change(table, [make_file(attempt)]),), attempt)
        return lambda on: commit(on, request)

    return prepare


def commit_under_name(commit: Callable[[Metastore, CommitRequest], Any]) -> Prepare:
    def prepare(parties: Parties) -> Call:
        table, other, writer = make_table(parties.root), make_table(parties.root), fresh("w")
        append(parties.alice, table, 1, writer=writer)
        # Also in a table to which she has not committed yet.
        return lambda on: commit(on, empty(other, next(_numbers), writer=writer))

    return prepare


def commit_under_job(commit: Callable[[Metastore, CommitRequest], Any]) -> Prepare:
    def prepare(parties: Parties) -> Call:
        table, job = _job(parties)
        fence = Fence(job.lease, job.epoch)
        return lambda on: commit(on, empty(table, next(_numbers), writer=job.lease, fences=(fence,)))

    return prepare


def attach_under_job(parties: Parties) -> Call:
    """The job is alice's; the attempt is the caller's own."""
    table = make_table(parties.root)
    snapshot = commit_open(parties.root, table)
    job = lease(parties.alice, table)

    def attach(on: Metastore) -> Any:
        attempt = on.stage_attempt([table.table_uuid], fresh("own")).attempt_id
        return on.attach_changelogs(make_request(on, table, job, [snapshot], attempt))

    return attach


def attach_attempt(parties: Parties) -> Call:
    """The attempt and the job are alice's."""
    table = make_table(parties.root)
    snapshot = commit_open(parties.root, table)
    job = lease(parties.alice, table)
    request = make_request(parties.alice, table, job, [snapshot])
    return lambda on: on.attach_changelogs(request)


def _lease_of_alice(parties: Parties, name: str) -> int:
    grant = parties.alice.acquire_lease(name, "alice-1", _MINUTE_MS)
    assert grant.acquired
    return grant.epoch


def renew_lease(parties: Parties) -> Call:
    name = fresh("lease")
    epoch = _lease_of_alice(parties, name)
    return lambda on: on.renew_lease(name, epoch, _MINUTE_MS)


def release_lease(parties: Parties) -> Call:
    name = fresh("lease")
    epoch = _lease_of_alice(parties, name)
    return lambda on: on.release_lease(name, epoch)


def report_pipeline(parties: Parties) -> Call:
    name = fresh("flights")
    epoch = _lease_of_alice(parties, f"pipeline/{name}")
    report = Pipeline(name, "shop.orders", "files", "running", 1, "at 1", 0, 1, 0, "")
    return lambda on: on.report_pipeline(report, epoch)


def report_published(parties: Parties) -> Call:
    table = make_log_table(parties.root)
    epoch = _lease_of_alice(parties, to_publisher_lease(table.table_uuid))
    return lambda on: on.report_published(PublishReport(table.table_uuid, 1, epoch, (), 0, "", "slow"))


def heartbeat(parties: Parties) -> Call:
    _, job = _job(parties)
    return lambda on: on.heartbeat_job(job.job_id, job.epoch, _MINUTE_MS)


def finish(parties: Parties) -> Call:
    _, job = _job(parties)
    return lambda on: on.finish_job(job.job_id, job.epoch, "done")


def finish_purge(parties: Parties) -> Call:
    _, job = _job(parties, PURGE)
    return lambda on: on.finish_job(job.job_id, job.epoch, "done")


def fail(parties: Parties) -> Call:
    _, job = _job(parties)
    return lambda on: on.fail_job(job.job_id, job.epoch, "broken", final=True)


def begin_purge(parties: Parties) -> Call:
    _, job = _job(parties, PURGE)
    return lambda on: on.begin_purge(job.job_id, job.epoch)


def purge_rows(parties: Parties) -> Call:
    _, job = _job(parties, PURGE)
    parties.alice.begin_purge(job.job_id, job.epoch)
    return lambda on: on.purge_rows(job.job_id, job.epoch)


def _consumer(parties: Parties) -> tuple[TableInfo, str, int]:
    table, consumer = make_table(parties.root), fresh("etl")
    append(parties.root, table, 1, writer=fresh("w"))
    (opened,) = parties.alice.open_consumer(consumer, [table.table_uuid], "alice-1")
    return table, consumer, opened.epoch


def open_consumer(parties: Parties) -> Call:
    table, consumer, _ = _consumer(parties)
    return lambda on: on.open_consumer(consumer, [table.table_uuid], "me")


def advance_consumer(parties: Parties) -> Call:
    table, consumer, epoch = _consumer(parties)
    return lambda on: on.advance_consumer(consumer, [ConsumerPosition(table.table_uuid, epoch, 1, "")])


def renew_consumer(parties: Parties) -> Call:
    table, consumer, epoch = _consumer(parties)
    return lambda on: on.renew_consumer(consumer, {table.table_uuid: epoch}, "me")


def reset_consumer(parties: Parties) -> Call:
    table, consumer, _ = _consumer(parties)
    return lambda on: on.reset_consumer(table.table_uuid, consumer, 0)


def delete_consumer(parties: Parties) -> Call:
    table, consumer, _ = _consumer(parties)
    return lambda on: on.delete_consumer(table.table_uuid, consumer)


def _leased_snapshot(parties: Parties) -> tuple[TableInfo, str]:
    table, holder = make_table(parties.root), fresh("reader")
    append(parties.root, table, 1, writer=fresh("w"))
    parties.alice.lease_snapshot(table.table_uuid, holder, 1, _MINUTE_MS)
    return table, holder


def lease_snapshot(parties: Parties) -> Call:
    table, holder = _leased_snapshot(parties)
    return lambda on: on.lease_snapshot(table.table_uuid, holder, 1, 1)


def release_snapshot(parties: Parties) -> Call:
    table, holder = _leased_snapshot(parties)
    return lambda on: on.release_snapshot(table.table_uuid, holder)


REFUSED: Mapping[str, tuple[Prepare, ...]] = {
    "StageAttempt": (join_attempt, stage_under_name, stage_under_job),
    "AbandonAttempt": (abandon,),
    "RegisterWriter": (register, register_used),
    "Commit": tuple(
        make(commit_alone) for make in (commit_attempt, repeat_with_attempt, commit_under_name, commit_under_job)
    ),
    "CommitStream": tuple(
        make(commit_by_stream) for make in (commit_attempt, repeat_with_attempt, commit_under_name, commit_under_job)
    ),
    "AttachChangelogs": (attach_under_job, attach_attempt),
    "RenewLease": (renew_lease,),
    "ReleaseLease": (release_lease,),
    "ReportPipeline": (report_pipeline,),
    "ReportPublished": (report_published,),
    "HeartbeatJob": (heartbeat,),
    "FinishJob": (finish, finish_purge),
    "FailJob": (fail,),
    "BeginPurge": (begin_purge,),
    "PurgeRows": (purge_rows,),
    "OpenConsumer": (open_consumer,),
    "AdvanceConsumer": (advance_consumer,),
    "RenewConsumer": (renew_consumer,),
    "ResetConsumer": (reset_consumer,),
    "DeleteConsumer": (delete_consumer,),
    "LeaseSnapshot": (lease_snapshot,),
    "ReleaseSnapshot": (release_snapshot,),
}
"""Calls that another writer is refused, by the name of the RPC."""

SPARED: Mapping[str, str] = {
    "AbortAttempts": "those of others stay open until they are abandoned",
    "ForgetAttempts": "those of others stay known until they are settled",
    "RenewAttempts": "those of others are not renewed",
}
"""Calls about many attempts, which leave those of others alone and say so by their answers."""

OPEN_TO_THE_ROLE: Mapping[str, str] = {
    "ReleaseWriter": "for admins alone",
    "ForgetPipeline": "for admins alone",
    "AcquireLease": "takes only what is free or over",
    "LeaseJob": "takes only what is due or over",
    "RetryJob": "refuses jobs that are held",
    "ListJobRuns": "reads",
    "GetWriterProgress": "reads",
    "FindAttempts": "reads",
    "FindUsedFiles": "reads",
    "ListExpiredFiles": "reads",
    "ReportPresence": "nothing is decided by it",
    "ExpireSnapshots": "acts on no one's work",
}
"""Calls that name such a thing, and why their role is enough."""
