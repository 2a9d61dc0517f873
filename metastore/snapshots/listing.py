"""Listing the snapshots of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakelog.client.metastore.metastore import LatestSnapshot, SnapshotPage
from lakelog.format.commit.facts import TableHead

from ..store.transaction import StoreUser, Transaction, run_transaction
from ..store.validation import check_number, check_table_uuids, check_uuid
from ..tables.dropped import explain_gone
from ..tables.lookup import find_head
from .retained import to_overtaken

DEFAULT_LIMIT: Final = 1000
MAX_LIMIT: Final = 10_000
MAX_TABLES: Final = 1000


class SnapshotListing(StoreUser):
    """The use cases of listing snapshots."""

    async def list_snapshots(
        self, table_uuid: str, *, after: int = 0, until: int = 0, limit: int = 0, newest: bool = False
    ) -> SnapshotPage:
        check_uuid("table_uuid", table_uuid)
        check_number("after", after, 0)
        check_number("until", until, 0)
        check_number("limit", limit, 0, MAX_LIMIT)

        async def load(tx: Transaction) -> SnapshotPage:
            head = await find_head(tx, table_uuid)
            last = min(until, head.latest_snapshot_id) if until else head.latest_snapshot_id
            # Older snapshots that a tag retains are not part of the retained history: a reader of it would see gaps.
            first = max(after, head.earliest_change_id - 1)
            most = limit or DEFAULT_LIMIT
            found = await tx.list_snapshots(head.table_id, first, last, most, newest=newest)
            if len(found) < min(most, last - first):
                # They form one run without gaps, except for snapshots that expired since the head was read.
                raise to_overtaken(head)
            return SnapshotPage(
                tuple(found), head.latest_snapshot_id, *_find_earliest(head), head.first_pending_snapshot
            )

        return await run_transaction(self._store, load)

    async def list_latest(self, table_uuids: Sequence[str]) -> list[LatestSnapshot]:
        check_table_uuids("table_uuids", table_uuids, MAX_TABLES)

        async def load(tx: Transaction) -> list[LatestSnapshot]:
            # SUBTLE: one read of all heads. With one read for each, a commit could come in between.
            heads = await tx.find_heads(table_uuids)
            found = []
            for table_uuid in table_uuids:
                head = heads.get(table_uuid)
                if head is None:
                    raise await explain_gone(tx, table_uuid)
                latest = head.latest_snapshot_id, head.latest_uuid
                found.append(LatestSnapshot(table_uuid, *latest, *_find_earliest(head), head.last_full_snapshot))
            return found

        return await run_transaction(self._store, load)


def _find_earliest(head: TableHead) -> tuple[int, int]:
    """The earliest snapshots whose state and whose changes are retained; 0 where there is none."""
    return (head.earliest_snapshot_id, head.earliest_change_id) if head.latest_snapshot_id else (0, 0)
