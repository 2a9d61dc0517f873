"""Presence of services on the wire."""

from __future__ import annotations

from lakelog.format.jobs.presence import Service, ServiceReport, ServiceState
from lakelog.rpc.messages import build, refusal
from lakelog.rpc.translation import Translation, translate_enum
from lakelog.rpc.v1 import presence_pb2

_to_proto_state, _from_proto_state = translate_enum(
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
        state=_to_proto_state(report.state),
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
        state=_from_proto_state(service.state),
        work=tuple(service.work),
        metrics=service.metrics,
        uptime_ms=message.uptime_ms,
        ttl_ms=service.ttl_ms,
    )


to_proto_service, from_proto_service = Translation(
    Service, presence_pb2.Service, fields={"state": (_to_proto_state, _from_proto_state)}
).both
