"""What every service measures about its own process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, PlatformCollector, ProcessCollector

import lakelog


def add_process_metrics(registry: CollectorRegistry, service: str) -> None:
    """Adds the memory, processor time and open files of the process, and which service of which version it is.

    Args:
        registry: The registry that the service shows.
        service: The name of the service, as in `lakelog status`.
    """
    for collector in (ProcessCollector, PlatformCollector):
        collector(registry=registry)
    info = Gauge(
        "lakelog_service_info",
        "1 for each running process, by its service and version.",
        ["service", "version"],
        registry=registry,
    )
    info.labels(service, lakelog.__version__).set(1)
