"""Jobs, leases, pipelines, and attached changelogs, on the wire."""

from __future__ import annotations

from typing import Final

from lakelog.format.commit.attachment import AttachRequest, AttachResult, SnapshotChangelog
from lakelog.format.jobs.job import Job, JobState
from lakelog.format.jobs.work import LeaseGrant, Pipeline
from lakelog.rpc.files import from_proto_data_file, to_proto_data_file
from lakelog.rpc.translation import Translation, translate_enum
from lakelog.rpc.v1 import jobs_pb2, snapshots_pb2

to_proto_job_state, from_proto_job_state = translate_enum(
    {
        JobState.DUE: jobs_pb2.JOB_STATE_DUE,
        JobState.LEASED: jobs_pb2.JOB_STATE_LEASED,
        JobState.DONE: jobs_pb2.JOB_STATE_DONE,
        JobState.FAILED: jobs_pb2.JOB_STATE_FAILED,
    },
    "job.state",
    "Use one of due (1) to failed (4)",
)

_JOB: Final = Translation(
    Job,
    jobs_pb2.Job,
    fields={"state": (to_proto_job_state, from_proto_job_state)},
    apart=("aborted_attempts", "owner"),
)
to_proto_job = _JOB.to_proto


def from_proto_job(message: jobs_pb2.Job, aborted_attempts: tuple[str, ...] = ()) -> Job:
    """Translates a job back; its message does not contain the attempts that were aborted when it was leased."""
    return _JOB.from_proto(message, aborted_attempts=aborted_attempts)


_DATA_FILE: Final = (to_proto_data_file, from_proto_data_file)
_CHANGELOG: Final = Translation(SnapshotChangelog, snapshots_pb2.SnapshotChangelog, fields={"files": _DATA_FILE})
to_proto_attach_request, from_proto_attach_request = Translation(
    AttachRequest, snapshots_pb2.AttachChangelogsRequest, fields={"changelogs": _CHANGELOG.both}
).both
to_proto_attach_result, from_proto_attach_result = Translation(
    AttachResult,
    snapshots_pb2.AttachChangelogsResponse,
    names={"first_pending_snapshot": "first_pending_snapshot_id"},
).both

to_proto_lease_grant, from_proto_lease_grant = Translation(LeaseGrant, jobs_pb2.AcquireLeaseResponse).both
to_proto_pipeline, from_proto_pipeline = Translation(Pipeline, jobs_pb2.Pipeline).both
