"""What the metastore knows of services: a part of `lakelog.client.metastore.metastore.Metastore`."""

from __future__ import annotations

from typing import Protocol

from lakelog.format.jobs.presence import Service, ServiceReport


class Presence(Protocol):
    """The service processes that report themselves."""

    def report_presence(self, report: ServiceReport) -> None:
        """Reports that a service is there or, as `STOPPED`, that it ends. Idempotent; answers or fails in seconds.

        SUBTLE: a report that arrives after the one that removes the service lists it again. It is then shown as silent,
            then as gone, and is removed, as if it had been killed.

        Raises:
            ResourceExhausted: The list is full, and none of its services is gone.
            InvalidArgument: The report is malformed.
        """
        ...

    def list_services(self) -> list[Service]:
        """The services that are there, and those gone for less than ten minutes, by kind, host, start and instance."""
        ...
