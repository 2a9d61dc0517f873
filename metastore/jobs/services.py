"""The service processes, as they report themselves. Only the store's clock judges which are gone."""

from __future__ import annotations

import re
from typing import Final

from lakelog.errors import ResourceExhausted
from lakelog.format.jobs.presence import (
    GONE_RETAINED_MS,
    MAX_NAME_CHARACTERS,
    MAX_TTL_MS,
    MAX_WORK,
    MAX_WORK_CHARACTERS,
    MIN_TTL_MS,
    Service,
    ServiceReport,
    ServiceState,
)

from ..store.limits import Limits
from ..store.transaction import Store, Transaction, run_transaction
from ..store.validation import check_number, check_text, check_uuid, invalid

_KIND: Final = re.compile(r"[a-z][a-z_]{0,31}")
_MAX_PID: Final = 2**32
_MAX_UPTIME_MS: Final = 10**12
"""30 years."""


class Services:
    """The use cases of presence.

    Args:
        store: Where the list is.
        limits: How many services it may have.
    """

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._max_services = limits.max_services

    async def report_presence(self, report: ServiceReport) -> None:
        _check_report(report)
        if report.state is ServiceState.STOPPED:
            await run_transaction(self._store, lambda tx: tx.remove_service(report.instance_id))
        else:
            await run_transaction(self._store, lambda tx: self._enter(tx, report))

    async def list_services(self) -> list[Service]:
        found = await run_transaction(self._store, lambda tx: tx.list_services())
        # Entries that are not evicted yet are no longer shown.
        return [service for service in found if service.silent_ms < service.ttl_ms + GONE_RETAINED_MS]

    async def _enter(self, tx: Transaction, report: ServiceReport) -> None:
        await tx.evict_services(GONE_RETAINED_MS)
        if await tx.renew_service(report):
            return
        # Two services that register at once could both take the last place.
        await tx.lock_services()
        if await tx.count_services() >= self._max_services:
            await tx.evict_services(0)
            if await tx.count_services() >= self._max_services:
                raise ResourceExhausted(
                    f"{self._max_services} services are listed, and no more can be. This one is not shown by `lakelog "
                    "status`, and works all the same. Stop services that are not needed.",
                    reason="TOO_MANY_SERVICES",
                    metadata={"limit": str(self._max_services)},
                )
        await tx.insert_service(report)


def _check_report(report: ServiceReport) -> None:
    if not _KIND.fullmatch(report.kind):
        raise invalid("service.kind", report.kind, "Use a letter first, then letters and '_', 32 at most (a to z).")
    check_uuid("service.instance_id", report.instance_id)
    check_text("service.host", report.host, 1, MAX_NAME_CHARACTERS)
    check_number("service.pid", report.pid, 0, _MAX_PID)
    check_text("service.version", report.version, 1, MAX_NAME_CHARACTERS)
    check_text("service.metrics", report.metrics, 0, MAX_NAME_CHARACTERS)
    if len(report.work) > MAX_WORK:
        raise invalid("service.work", f"{len(report.work)} entries", f"Give at most {MAX_WORK}.")
    for entry in report.work:
        check_text("service.work", entry, 1, MAX_WORK_CHARACTERS)
    check_number("uptime_ms", report.uptime_ms, 0, _MAX_UPTIME_MS)
    check_number("service.ttl_ms", report.ttl_ms, MIN_TTL_MS, MAX_TTL_MS)
