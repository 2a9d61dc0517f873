"""Which services run, in this process; see `metastore.inprocess`."""

from __future__ import annotations

from lakelog.format.jobs.presence import Service, ServiceReport

from .inprocess_dropped import Running


class InProcessPresence:
    """The part of `InProcessMetastore` that is about presence."""

    def report_presence(self: Running, report: ServiceReport) -> None:
        """Reports that a service is there, or that it ends."""
        self.run(self.service.services.report(report))

    def list_services(self: Running) -> list[Service]:
        """The services that are there or gone since lately."""
        return self.run(self.service.services.list_services())
