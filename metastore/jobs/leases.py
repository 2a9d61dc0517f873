"""Leases: which process does which work. A lease only schedules; its epoch, checked with the effect, protects."""

from __future__ import annotations

from typing import Final

from lakelog.errors import Fenced, ResourceExhausted
from lakelog.format.commit.epochs import EPOCH_UNKNOWN, explain_unknown
from lakelog.format.jobs.job import JOB_LEASES
from lakelog.format.jobs.work import LeaseGrant

from ..ownership import Principal, check_lease_owner
from ..store.transaction import StoreUser, Transaction, run_transaction
from ..store.validation import check_number, check_text, invalid

MIN_DURATION_MS = 1000
MAX_DURATION_MS = 3_600_000

MAX_LEASES: Final = 10_000
"""Leases of one caller, held or not: names stay for 90 days (`unused_leases`). A publisher has one for each table."""


class Leases(StoreUser):
    """The use cases of leases. Only the store's clock judges deadlines."""

    async def acquire_lease(self, name: str, holder: str, duration_ms: int, *, by: Principal) -> LeaseGrant:
        check_text("lease", name, 1, 256)
        if name.startswith(JOB_LEASES):
            raise invalid("lease", name, "Names that begin with 'job/' are those of jobs; take a job instead.")
        check_text("holder", holder, 1, 256)
        check_number("duration_ms", duration_ms, MIN_DURATION_MS, MAX_DURATION_MS)

        async def acquire(tx: Transaction) -> LeaseGrant:
            grant, is_more = await tx.acquire_lease(name, holder, duration_ms, by.name)
            # An error here undoes it. Admins are not counted: nothing that a writer does refuses them.
            if is_more and not by.may_all and await tx.count_leases(by.name, MAX_LEASES + 1) > MAX_LEASES:
                raise ResourceExhausted(
                    f"lease is '{name}', and {by.name} has {MAX_LEASES:,} leases of other names, which is the limit of "
                    "one caller. Use one of those names again; a lease that no one has held for 90 days is removed.",
                    reason="TOO_MANY_LEASE_NAMES",
                    metadata={"field": "lease", "lease": name, "limit": str(MAX_LEASES)},
                )
            return grant

        return await run_transaction(self._store, acquire)

    async def renew_lease(self, name: str, epoch: int, duration_ms: int, *, by: Principal) -> int:
        check_text("lease", name, 1, 256)
        check_number("epoch", epoch, 1)
        check_number("duration_ms", duration_ms, MIN_DURATION_MS, MAX_DURATION_MS)

        async def renew(tx: Transaction) -> int:
            grant, owner = await tx.renew_lease(name, epoch, duration_ms)
            if not grant.acquired:
                raise lease_lost(name, epoch, grant.epoch, grant.holder)
            # An error here undoes the renewal.
            check_lease_owner(name, owner, by)
            return grant.remaining_ms

        return await run_transaction(self._store, renew)

    async def release_lease(self, name: str, epoch: int, *, by: Principal) -> None:
        check_text("lease", name, 1, 256)
        check_number("epoch", epoch, 1)

        async def release(tx: Transaction) -> None:
            # An error here undoes the release.
            check_lease_owner(name, await tx.release_lease(name, epoch), by)

        await run_transaction(self._store, release)


def lease_lost(name: str, epoch: int, current: int, holder: str) -> Fenced:
    """The error for a caller that acts under a lease that it does not hold."""
    who = f"'{holder}' holds it" if holder else "no one holds it"
    is_unknown = epoch > current
    why = (
        f"is not the caller's, because {explain_unknown(epoch, current)}; {who}"
        if is_unknown
        else f"has epoch {current} by now and {who}; the caller's epoch is {epoch}"
    )
    return Fenced(
        f"Lease '{name}' {why}. Stop this work, and acquire the lease again before going on.",
        reason=EPOCH_UNKNOWN if is_unknown else "LEASE_FENCED",
        metadata={"lease": name, "epoch": str(epoch), "current_epoch": str(current), "holder": holder},
    )
