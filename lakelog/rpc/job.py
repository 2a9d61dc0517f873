"""Jobs, leases, pipelines, presence of services, attached changelogs, waiting work and the overview, on the wire."""

from __future__ import annotations

from typing import Final

from lakelog.format.commit.attachment import AttachRequest, AttachResult, SnapshotChangelog
from lakelog.format.jobs.job import Job, JobCount, JobState, JobStatus
from lakelog.format.jobs.job_run import JobRun, RunResult
from lakelog.format.jobs.overview import Overview
from lakelog.format.jobs.presence import Service, ServiceReport, ServiceState
from lakelog.format.jobs.queue import JobQueue
from lakelog.format.jobs.waiting_work import ConsumerLag, ConsumerLags, FailedJob, LogLag, LogLags, WaitingWork
from lakelog.format.jobs.work import LeaseGrant, Pipeline
from lakelog.rpc.files import from_proto_data_file, to_proto_data_file
from lakelog.rpc.messages import build, refusal
from lakelog.rpc.retention import from_proto_overdue, to_proto_overdue
from lakelog.rpc.translation import Translation, translate_enum
from lakelog.rpc.v1 import due_work_pb2, jobs_pb2, presence_pb2, snapshots_pb2

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

to_proto_job_status, from_proto_job_status = translate_enum(
    {
        JobStatus.DUE: jobs_pb2.JOB_STATUS_DUE,
        JobStatus.RESTING: jobs_pb2.JOB_STATUS_RESTING,
        JobStatus.LEASED: jobs_pb2.JOB_STATUS_LEASED,
        JobStatus.ABANDONED: jobs_pb2.JOB_STATUS_ABANDONED,
        JobStatus.DONE: jobs_pb2.JOB_STATUS_DONE,
        JobStatus.FAILED: jobs_pb2.JOB_STATUS_FAILED,
    },
    "job.status",
    "Use one of due (1) to failed (6)",
)

to_proto_run_result, from_proto_run_result = translate_enum(
    {
        RunResult.DONE: jobs_pb2.RUN_RESULT_DONE,
        RunResult.GIVEN_BACK: jobs_pb2.RUN_RESULT_GIVEN_BACK,
        RunResult.FAILED: jobs_pb2.RUN_RESULT_FAILED,
        RunResult.LOST: jobs_pb2.RUN_RESULT_LOST,
    },
    "run.result",
    "Use one of done (1) to lost (4)",
)

JOB_RUN: Final = Translation(JobRun, jobs_pb2.JobRun, fields={"result": (to_proto_run_result, from_proto_run_result)})

JOB_COUNT: Final = Translation(
    JobCount, jobs_pb2.JobCount, fields={"status": (to_proto_job_status, from_proto_job_status)}
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

_to_proto_service_state, _from_proto_service_state = translate_enum(
    {
        ServiceState.STARTING: presence_pb2.SERVICE_STATE_STARTING,
        ServiceState.RUNNING: presence_pb2.SERVICE_STATE_RUNNING,
        ServiceState.DRAINING: presence_pb2.SERVICE_STATE_DRAINING,
        ServiceState.STOPPED: presence_pb2.SERVICE_STATE_STOPPED,
    },
    "service.state",
    "Use one of starting (1) to stopped (4)",
)


def to_proto_service_report(report: ServiceReport) -> presence_pb2.ReportPresenceRequest:
    """Translates a report."""
    service = build(
        presence_pb2.Service,
        kind=report.kind,
        instance_id=report.instance_id,
        host=report.host,
        pid=report.pid,
        version=report.version,
        state=_to_proto_service_state(report.state),
        work=report.work,
        metrics=report.metrics,
        ttl_ms=report.ttl_ms,
    )
    return build(presence_pb2.ReportPresenceRequest, service=service, uptime_ms=report.uptime_ms)


def from_proto_service_report(message: presence_pb2.ReportPresenceRequest) -> ServiceReport:
    """Translates a report back; InvalidArgument if it is incomplete."""
    if not message.HasField("service"):
        raise refusal("service", "is not given", "Send the service that reports")
    service = message.service
    return ServiceReport(
        kind=service.kind,
        instance_id=service.instance_id,
        host=service.host,
        pid=service.pid,
        version=service.version,
        state=_from_proto_service_state(service.state),
        work=tuple(service.work),
        metrics=service.metrics,
        uptime_ms=message.uptime_ms,
        ttl_ms=service.ttl_ms,
    )


to_proto_service, from_proto_service = Translation(
    Service, presence_pb2.Service, fields={"state": (_to_proto_service_state, _from_proto_service_state)}
).both

JOB_QUEUE: Final = Translation(JobQueue, due_work_pb2.JobQueue)

_LOGS: Final = Translation(
    LogLags, due_work_pb2.LogLags, fields={"named": Translation(LogLag, due_work_pb2.LogLag).both}
)

_CONSUMERS: Final = Translation(
    ConsumerLags, due_work_pb2.ConsumerLags, fields={"named": Translation(ConsumerLag, due_work_pb2.ConsumerLag).both}
)

_WORK: Final = Translation(
    WaitingWork,
    due_work_pb2.WaitingWork,
    fields={
        "queues": JOB_QUEUE.both,
        "failed_jobs": Translation(FailedJob, due_work_pb2.FailedJob).both,
        "logs": _LOGS.both,
        "consumers": _CONSUMERS.both,
    },
)

OVERVIEW: Final = Translation(
    Overview,
    due_work_pb2.GetOverviewResponse,
    fields={"work": _WORK.both, "overdue": (to_proto_overdue, from_proto_overdue)},
)
