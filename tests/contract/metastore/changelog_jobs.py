"""Commits whose changelog a job attaches, and such jobs."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.attachment import AttachRequest, SnapshotChangelog
from lakelog.format.jobs.job import Job
from lakelog.format.tables.snapshot import ChangelogState
from lakelog.format.tables.table import TableInfo
from tests.support.metastore.making import append, make_file

KINDS = ("changelog",)


def lease(
    metastore: Metastore, *tables: TableInfo, holder: str = "a", duration_ms: int = 60_000, wait_ms: int = 0
) -> Job:
    job = metastore.lease_job(
        KINDS, [table.table_uuid for table in tables], holder, duration_ms=duration_ms, wait_ms=wait_ms
    )
    assert job is not None
    return job


def commit_open(metastore: Metastore, table: TableInfo, identifier: int = 1) -> int:
    snapshot_id = append(metastore, table, identifier, changelog=ChangelogState.PENDING).results[0].snapshot_id
    assert snapshot_id is not None
    return snapshot_id


def find(metastore: Metastore, table: TableInfo) -> Job:
    (job,) = metastore.list_jobs([table.table_uuid])
    return job


def make_request(
    metastore: Metastore, table: TableInfo, job: Job, snapshots: Sequence[int], attempt: str = "", **changes: object
) -> AttachRequest:
    """A changelog of one file for each snapshot."""
    attempt = attempt or metastore.stage_attempt([table.table_uuid], job.lease).attempt_id
    changelogs = tuple(
        SnapshotChangelog(each, (make_file(attempt, f"changelog-{each}", row_count=each, **changes),))
        for each in snapshots
    )
    return AttachRequest(table.table_uuid, 0, 4, attempt, job.job_id, job.epoch, changelogs)
