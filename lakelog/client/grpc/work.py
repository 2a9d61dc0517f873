"""Leases and pipelines over gRPC."""

from __future__ import annotations

from typing import Final

from lakelog.client.connection.calls import Calls
from lakelog.client.connection.retry import RetryPolicy
from lakelog.format.jobs.work import LeaseGrant, Pipeline
from lakelog.rpc.job import from_proto_lease_grant, from_proto_pipeline, to_proto_pipeline
from lakelog.rpc.messages import build
from lakelog.rpc.v1 import jobs_pb2

_NOTICE_TOTAL_S: Final = 5.0
"""For calls that only shorten the waiting of others: the caller has other work to do, or is about to end."""


class GrpcWork:
    """The part of `lakelog.client.metastore.metastore.Metastore` that is about leases and pipelines."""

    _calls: Calls
    _retries: RetryPolicy

    def acquire_lease(self, name: str, holder: str, duration_ms: int) -> LeaseGrant:
        """Acquires a lease. Repeated: if a lost try took it, that lease has to run out before the next try gets it."""
        request = build(jobs_pb2.AcquireLeaseRequest, name=name, holder=holder, duration_ms=duration_ms)
        return from_proto_lease_grant(self._calls.mutate("AcquireLease", lambda on: on.jobs.AcquireLease, request))

    def renew_lease(self, name: str, epoch: int, duration_ms: int) -> int:
        """Renews a lease. Repeated, but not for longer than the lease would last: idempotent."""
        request = build(jobs_pb2.RenewLeaseRequest, name=name, epoch=epoch, duration_ms=duration_ms)
        total_s = min(self._retries.total_s, max(duration_ms, 1) / 1000)
        return self._calls.mutate("RenewLease", lambda on: on.jobs.RenewLease, request, total_s=total_s).remaining_ms

    def release_lease(self, name: str, epoch: int) -> None:
        """Releases a lease. Repeated: idempotent; not for long, since the lease ends by itself."""
        request = build(jobs_pb2.ReleaseLeaseRequest, name=name, epoch=epoch)
        self._calls.mutate("ReleaseLease", lambda on: on.jobs.ReleaseLease, request, total_s=self._notice_total_s())

    def report_pipeline(self, pipeline: Pipeline, epoch: int) -> None:
        """Stores where a pipeline is. Repeated: idempotent; not for long, since the next report replaces it."""
        request = build(jobs_pb2.ReportPipelineRequest, pipeline=to_proto_pipeline(pipeline), epoch=epoch)
        total_s = self._notice_total_s()
        self._calls.mutate("ReportPipeline", lambda on: on.jobs.ReportPipeline, request, total_s=total_s)

    def list_pipelines(self) -> list[Pipeline]:
        """All pipelines that ever reported, by name."""
        response = self._calls.read("ListPipelines", lambda on: on.jobs.ListPipelines, jobs_pb2.ListPipelinesRequest())
        return [from_proto_pipeline(pipeline) for pipeline in response.pipelines]

    def forget_pipeline(self, name: str) -> None:
        """Removes a pipeline that has ended from the list. Not repeated after an unknown outcome."""
        request = build(jobs_pb2.ForgetPipelineRequest, name=name)
        self._calls.mutate("ForgetPipeline", lambda on: on.jobs.ForgetPipeline, request, repeat_unknown=False)

    def _notice_total_s(self) -> float:
        return min(self._retries.total_s, _NOTICE_TOTAL_S)
