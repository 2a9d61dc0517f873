"""Jobs over gRPC, and the changelogs that they attach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakelog.client.connection.calls import Calls
from lakelog.client.connection.retry import Deadlines, RetryPolicy
from lakelog.format.commit.attachment import AttachRequest, AttachResult
from lakelog.format.jobs.job import Job, JobState
from lakelog.rpc.job import (
    from_proto_attach_result,
    from_proto_job,
    from_proto_job_state,
    to_proto_attach_request,
)
from lakelog.rpc.messages import build
from lakelog.rpc.v1 import jobs_pb2


class GrpcJobs:
    """The part of `lakelog.client.metastore.metastore.Metastore` that is about jobs."""

    _calls: Calls
    _deadlines: Deadlines
    _retries: RetryPolicy

    def attach_changelogs(self, request: AttachRequest) -> AttachResult:
        """Attaches changelogs to snapshots with pending changelogs. Repeated: the answer says what was done."""
        message = to_proto_attach_request(request)
        response = self._calls.mutate("AttachChangelogs", lambda on: on.snapshots.AttachChangelogs, message)
        return from_proto_attach_result(response)

    def lease_job(
        self, kinds: Sequence[str], table_uuids: Sequence[str], holder: str, *, duration_ms: int, wait_ms: int = 0
    ) -> Job | None:
        """Leases a job that is due. Not repeated after an unknown outcome: its deadline frees a job that it took."""
        request = build(
            jobs_pb2.LeaseJobRequest,
            kinds=kinds,
            table_uuids=table_uuids,
            holder=holder,
            duration_ms=duration_ms,
            wait_ms=wait_ms,
        )
        wait_s = max(wait_ms, 0) / 1000
        response = self._calls.mutate(
            "LeaseJob",
            lambda on: on.jobs.LeaseJob,
            request,
            deadline_s=self._deadlines.call_s + wait_s,
            total_s=self._retries.total_s + wait_s,
            repeat_unknown=False,
        )
        return from_proto_job(response.job, tuple(response.aborted_attempt_ids)) if response.HasField("job") else None

    def heartbeat_job(self, job_id: int, epoch: int, duration_ms: int) -> int:
        """Renews a job's lease. Repeated, but not for longer than the lease would last: idempotent."""
        request = build(jobs_pb2.HeartbeatJobRequest, job_id=job_id, epoch=epoch, duration_ms=duration_ms)
        total_s = min(self._retries.total_s, max(duration_ms, 1) / 1000)
        response = self._calls.mutate("HeartbeatJob", lambda on: on.jobs.HeartbeatJob, request, total_s=total_s)
        return response.remaining_ms

    def finish_job(self, job_id: int, epoch: int, outcome: str = "", *, work_left: bool = False) -> bool:
        """Ends a job that succeeded. Not repeated after an unknown outcome: a repeat would find the lease ended."""
        request = build(jobs_pb2.FinishJobRequest, job_id=job_id, epoch=epoch, outcome=outcome, work_left=work_left)
        return self._calls.mutate("FinishJob", lambda on: on.jobs.FinishJob, request, repeat_unknown=False).due_again

    def fail_job(self, job_id: int, epoch: int, reason: str, *, final: bool = False, passing: bool = False) -> JobState:
        """Ends a job that failed. Not repeated after an unknown outcome, as `finish_job`."""
        request = build(
            jobs_pb2.FailJobRequest, job_id=job_id, epoch=epoch, reason=reason, final=final, passing=passing
        )
        response = self._calls.mutate("FailJob", lambda on: on.jobs.FailJob, request, repeat_unknown=False)
        return from_proto_job_state(response.state)

    def list_jobs(self, table_uuids: Sequence[str] = ()) -> list[Job]:
        """All jobs, or those of some tables."""
        request = build(jobs_pb2.ListJobsRequest, table_uuids=table_uuids)
        response = self._calls.read("ListJobs", lambda on: on.jobs.ListJobs, request)
        return [from_proto_job(job) for job in response.jobs]

    def retry_job(self, job_id: int) -> None:
        """Makes a job due at once. Repeated, though not idempotent: a repeat does no harm, but its answer may say less.

        Say a first try took effect, its answer was lost, and a compactor has leased the job since. Then the repeat is
        refused as it would be for any caller: `JOB_HELD`, or `JOB_DONE` once nothing is left to do. Otherwise the job
        is due again, and its tries count from zero.
        """
        request = build(jobs_pb2.RetryJobRequest, job_id=job_id)
        self._calls.mutate("RetryJob", lambda on: on.jobs.RetryJob, request)

    def request_jobs(
        self, table_uuid: str, kind: str, scopes: Sequence[str], payload: Mapping[str, str], *, priority: int = 0
    ) -> list[Job]:
        """Makes jobs of a table due at once. Repeated: at worst a job runs once more and finds nothing to do."""
        request = build(
            jobs_pb2.RequestJobsRequest,
            table_uuid=table_uuid,
            kind=kind,
            scopes=scopes,
            payload=dict(payload),
            priority=priority,
        )
        response = self._calls.mutate("RequestJobs", lambda on: on.jobs.RequestJobs, request)
        return [from_proto_job(job) for job in response.jobs]
