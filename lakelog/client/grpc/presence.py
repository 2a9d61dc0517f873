"""Presence of services over gRPC."""

from __future__ import annotations

from typing import Final

from lakelog.client.connection.calls import Calls
from lakelog.format.jobs.presence import Service, ServiceReport
from lakelog.rpc.presence import from_proto_service, to_proto_service_report
from lakelog.rpc.v1 import presence_pb2

_REPORT_WITHIN_S: Final = 3.0
"""A report that takes longer is out of date, as the next one follows. The limit also lets a service end quickly."""


class GrpcPresence:
    """The part of `lakelog.client.metastore.metastore.Metastore` that is about presence."""

    _calls: Calls

    def report_presence(self, report: ServiceReport) -> None:
        """Reports that a service is there, or that it ends. Repeated, for three seconds: idempotent."""
        self._calls.mutate(
            "ReportPresence",
            lambda on: on.presence.ReportPresence,
            to_proto_service_report(report),
            deadline_s=_REPORT_WITHIN_S,
            total_s=_REPORT_WITHIN_S,
        )

    def list_services(self) -> list[Service]:
        """The services that are there, and those that are gone since a short time."""
        response = self._calls.read(
            "ListServices", lambda on: on.presence.ListServices, presence_pb2.ListServicesRequest()
        )
        return [from_proto_service(service) for service in response.services]
