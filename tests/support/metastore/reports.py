"""What services report of themselves."""

from __future__ import annotations

from lakelog.format.jobs.presence import ServiceReport, ServiceState

COMPACTOR = ServiceReport(
    kind="compactor",
    instance_id="a" * 32,
    host="host-1",
    pid=17,
    version="0.1.0",
    state=ServiceState.STARTING,
    work=(),
    metrics="host-1:9464",
    uptime_ms=2_000,
    ttl_ms=60_000,
)
