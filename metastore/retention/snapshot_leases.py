"""Snapshot leases: what keeps snapshots of a table from expiring, and for whom (reliability C7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lakelog.errors import NotFound, ResourceExhausted, SnapshotExpired
from lakelog.format.commit.facts import TableHead
from lakelog.format.retention.expiry import SnapshotLease, SnapshotLeaseKind
from lakelog.options.declared.tables import CONSUMER_EXPIRATION_TIME
from lakelog.options.values import TableOptions

from ..logs.publishing import load_publisher_leases
from ..ownership import Principal, check_snapshot_lease_owner
from ..store.transaction import StoreUser, Transaction, run_transaction
from ..store.validation import check_number, check_text, check_uuid
from ..tables.lookup import find_head, find_table, lock_head

MAX_LEASE_MS: Final = 86_400_000
"""A dead reader retains nothing for longer than a day."""

MAX_LEASES: Final = 10_000
"""Snapshot leases of one caller in a table: they are read at each expiry, and listed in one answer."""


class SnapshotLeases(StoreUser):
    """The use cases of snapshot leases. Only the store's clock judges deadlines."""

    async def lease_snapshot(
        self, table_uuid: str, holder: str, snapshot_id: int, duration_ms: int, *, by: Principal
    ) -> int:
        check_uuid("table_uuid", table_uuid)
        check_text("holder", holder, 1, 256)
        check_number("snapshot_id", snapshot_id, 1)
        check_number("duration_ms", duration_ms, 1, MAX_LEASE_MS)

        async def put(tx: Transaction) -> int:
            head = await lock_head(tx, table_uuid)
            if snapshot_id > head.latest_snapshot_id:
                raise NotFound(
                    f"{head.name} has no snapshot {snapshot_id}; its newest one is {head.latest_snapshot_id}.",
                    reason="SNAPSHOT_NOT_FOUND",
                    metadata={"table": head.name, "snapshot_id": str(snapshot_id)},
                )
            if snapshot_id < head.earliest_change_id:
                held = [lease.snapshot_id for lease in await tx.list_leases(head.table_id) if lease.holder == holder]
                if snapshot_id not in held and not await tx.has_tag(head.table_id, snapshot_id):
                    raise _expired(head, snapshot_id)
            expires_at_ms, owner, others = await tx.put_lease(head.table_id, holder, snapshot_id, duration_ms, by.name)
            # An error here undoes the lease.
            check_snapshot_lease_owner(holder, str(head.name), owner, by)
            if others >= MAX_LEASES:
                raise ResourceExhausted(
                    f"Table {head.name} has {others:,} snapshot leases of {owner or 'callers without a name'}, which "
                    "is the limit of one caller. Release some, or wait until they expire.",
                    reason="TOO_MANY_LEASES",
                    metadata={"table": str(head.name), "limit": str(MAX_LEASES)},
                )
            return expires_at_ms

        return await run_transaction(self._store, put)

    async def release_snapshot(self, table_uuid: str, holder: str, *, by: Principal) -> None:
        check_uuid("table_uuid", table_uuid)
        check_text("holder", holder, 1, 256)

        async def release(tx: Transaction) -> None:
            head = (await tx.lock_heads([table_uuid])).get(table_uuid)
            if head is not None:
                owner = await tx.delete_lease(head.table_id, holder)
                check_snapshot_lease_owner(holder, str(head.name), owner, by)
                await tx.request_planning(head.table_id)

        await run_transaction(self._store, release)

    async def list_snapshot_leases(self, table_uuid: str) -> list[SnapshotLease]:
        check_uuid("table_uuid", table_uuid)

        async def load(tx: Transaction) -> list[SnapshotLease]:
            head = await find_head(tx, table_uuid)
            leases = await load_snapshot_leases(tx, head, await load_options(tx, head), await tx.now_ms())
            return sorted(leases, key=lambda lease: (lease.snapshot_id, lease.kind.value, lease.holder))

        return await run_transaction(self._store, load)


async def load_snapshot_leases(
    tx: Transaction, head: TableHead, options: TableOptions, now_ms: int
) -> list[SnapshotLease]:
    """What keeps snapshots of a table from expiring."""
    life_ms = options.get(CONSUMER_EXPIRATION_TIME)
    leases = []
    for each in await tx.list_consumers(head.table_id, head.table_uuid):
        ends_ms = each.used_at_ms + life_ms
        if each.snapshot_id is not None and now_ms < ends_ms:
            leases.append(SnapshotLease(SnapshotLeaseKind.CONSUMER, each.consumer_id, each.snapshot_id, ends_ms))
    for lease in await tx.list_leases(head.table_id):
        if lease.snapshot_id >= head.earliest_snapshot_id:
            leases.append(lease)
        elif lease.snapshot_id >= head.earliest_change_id:
            # Its state is gone, so its changes are read; a lease retains the changes after its snapshot.
            leases.append(replace(lease, snapshot_id=lease.snapshot_id - 1))
        # A lease on an older snapshot retains only that one, as a tag does.
    if head.first_pending_snapshot:
        leases.append(SnapshotLease(SnapshotLeaseKind.CHANGELOG, "compactor", head.first_pending_snapshot - 1))
    return leases + await load_publisher_leases(tx, head)


async def load_named(tx: Transaction, head: TableHead) -> set[int]:
    """The snapshots that are retained singly: those with a tag, and older ones with a lease."""
    tags = {tag.snapshot_id for tag in await tx.list_tags(head.table_id)}
    return tags | {lease.snapshot_id for lease in await tx.list_leases(head.table_id)}


async def load_options(tx: Transaction, head: TableHead) -> TableOptions:
    """The options of a table."""
    table = await find_table(tx, head.table_uuid)
    return TableOptions(table.info.options)


def _expired(head: TableHead, snapshot_id: int) -> SnapshotExpired:
    return SnapshotExpired(
        f"Snapshot {snapshot_id} of {head.name} has expired, so that it cannot be held; the snapshots "
        f"{head.earliest_snapshot_id} to {head.latest_snapshot_id} can. Read one of these.",
        metadata={"table": head.name, "snapshot_id": str(snapshot_id), "earliest": str(head.earliest_snapshot_id)},
    )
