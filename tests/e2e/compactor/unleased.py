"""A compactor that asks nobody whether it may: it does its table's first compaction, under no lease and no epoch.

So nothing but the verdict on each commit (reliability C5 and C6) stands between it and others on the same bucket.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.format.commit.request import CommitRequest, CommitResult, StagedAttempt
from lakelog.format.jobs.job import COMPACT, Job, JobState


def switch_leases_off() -> None:
    """In this process, for good; with `--once` it ends behind that job."""
    name = f"unleased {os.getpid()}"
    stage, commit = GrpcMetastore.stage_attempt, GrpcMetastore.commit
    done: set[int] = set()

    def take_first(self: Any, kinds: Sequence[str], table_uuids: Sequence[str], holder: str, **_: Any) -> Job | None:
        # What attendance makes due beside it is no part of this.
        jobs = sorted((job for job in self.list_jobs(table_uuids) if job.kind == COMPACT), key=lambda job: job.job_id)
        if done or not jobs:
            return None
        done.add(jobs[0].job_id)
        return jobs[0]

    def stage_as_myself(self: Any, table_uuids: Sequence[str], writer: str, **more: Any) -> StagedAttempt:
        return stage(self, table_uuids, name, **more)

    def commit_unfenced(self: Any, request: CommitRequest) -> CommitResult:
        return commit(self, replace(request, writer=f"{name} {request.writer}", fences=()))

    def notify_none(answer: Any) -> Any:
        def report(self: Any, *arguments: Any, **more: Mapping[str, Any]) -> Any:
            return answer

        return report

    faulty: Any = GrpcMetastore
    faulty.lease_job = take_first
    faulty.stage_attempt = stage_as_myself
    faulty.commit = commit_unfenced
    faulty.heartbeat_job = notify_none(60_000)
    faulty.finish_job = notify_none(False)
    faulty.fail_job = notify_none(JobState.DUE)
