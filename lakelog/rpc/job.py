"""Jobs, and changelogs that are attached, on the wire."""

from __future__ import annotations

from typing import Final

from lakelog.format.commit.attachment import AttachRequest, AttachResult, SnapshotChangelog
from lakelog.format.jobs.job import Job, JobState
from lakelog.rpc.files import from_proto_data_file, to_proto_data_file
from lakelog.rpc.messages import build, refusal
from lakelog.rpc.v1 import jobs_pb2, snapshots_pb2

_STATE_TO_PROTO: Final[dict[JobState, jobs_pb2.JobState.ValueType]] = {
    JobState.DUE: jobs_pb2.JOB_STATE_DUE,
    JobState.LEASED: jobs_pb2.JOB_STATE_LEASED,
    JobState.DONE: jobs_pb2.JOB_STATE_DONE,
    JobState.FAILED: jobs_pb2.JOB_STATE_FAILED,
}
_STATE_FROM_PROTO: Final = {int(number): state for state, number in _STATE_TO_PROTO.items()}


def to_proto_job_state(state: JobState) -> jobs_pb2.JobState.ValueType:
    """Translates where a job is."""
    return _STATE_TO_PROTO[state]


def from_proto_job_state(number: int) -> JobState:
    """Translates where a job is back; InvalidArgument for a number that is not known."""
    state = _STATE_FROM_PROTO.get(number)
    if state is None:
        raise refusal("job.state", f"has the unknown value {number}", "Use one of due (1) to failed (4)")
    return state


def to_proto_job(job: Job) -> jobs_pb2.Job:
    """Translates a job, without the attempts that taking it has doomed."""
    return build(
        jobs_pb2.Job,
        job_id=job.job_id,
        table_uuid=job.table_uuid,
        table=job.table,
        kind=job.kind,
        scope=job.scope,
        state=_STATE_TO_PROTO[job.state],
        priority=job.priority,
        payload=dict(job.payload),
        attempts=job.attempts,
        reason=job.reason,
        outcome=job.outcome,
        epoch=job.epoch,
        holder=job.holder,
        remaining_ms=job.remaining_ms,
        created_at_ms=job.created_at_ms,
        updated_at_ms=job.updated_at_ms,
        requested=dict(job.requested),
        done_epoch=job.done_epoch,
    )


def from_proto_job(message: jobs_pb2.Job, aborted_attempts: tuple[str, ...] = ()) -> Job:
    """Translates a job back."""
    return Job(
        job_id=message.job_id,
        table_uuid=message.table_uuid,
        table=message.table,
        kind=message.kind,
        scope=message.scope,
        state=from_proto_job_state(message.state),
        priority=message.priority,
        payload=dict(message.payload),
        attempts=message.attempts,
        reason=message.reason,
        outcome=message.outcome,
        epoch=message.epoch,
        holder=message.holder,
        remaining_ms=message.remaining_ms,
        created_at_ms=message.created_at_ms,
        updated_at_ms=message.updated_at_ms,
        aborted_attempts=aborted_attempts,
        requested=dict(message.requested),
        done_epoch=message.done_epoch,
    )


def to_proto_attach_request(request: AttachRequest) -> snapshots_pb2.AttachChangelogsRequest:
    """Translates changelogs that are to be attached."""
    return build(
        snapshots_pb2.AttachChangelogsRequest,
        table_uuid=request.table_uuid,
        schema_id=request.schema_id,
        bucket_count=request.bucket_count,
        attempt_id=request.attempt_id,
        job_id=request.job_id,
        epoch=request.epoch,
        changelogs=[
            build(
                snapshots_pb2.SnapshotChangelog,
                snapshot_id=each.snapshot_id,
                files=[to_proto_data_file(file) for file in each.files],
            )
            for each in request.changelogs
        ],
    )


def from_proto_attach_request(message: snapshots_pb2.AttachChangelogsRequest) -> AttachRequest:
    """Translates changelogs that are to be attached back."""
    return AttachRequest(
        table_uuid=message.table_uuid,
        schema_id=message.schema_id,
        bucket_count=message.bucket_count,
        attempt_id=message.attempt_id,
        job_id=message.job_id,
        epoch=message.epoch,
        changelogs=tuple(
            SnapshotChangelog(each.snapshot_id, tuple([from_proto_data_file(file) for file in each.files]))
            for each in message.changelogs
        ),
    )


def to_proto_attach_result(result: AttachResult) -> snapshots_pb2.AttachChangelogsResponse:
    """Translates what became of it."""
    return build(
        snapshots_pb2.AttachChangelogsResponse,
        already_attached=result.already_attached,
        first_pending_snapshot_id=result.first_pending_snapshot,
    )


def from_proto_attach_result(message: snapshots_pb2.AttachChangelogsResponse) -> AttachResult:
    """Translates what became of it back."""
    return AttachResult(message.already_attached, message.first_pending_snapshot_id)
