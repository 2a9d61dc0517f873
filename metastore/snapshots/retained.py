"""Finding a snapshot that can be read: by its number, or by its tag."""

from __future__ import annotations

from lakelog.format.commit.facts import TableHead
from lakelog.format.retention.retained import check_retained, to_expired
from lakelog.format.retention.tag import Tag, to_unknown_tag
from lakelog.format.tables.snapshot import Snapshot

from ..store.transaction import Transaction, TransactionAborted


async def load_retained(tx: Transaction, head: TableHead, snapshot_id: int) -> Snapshot:
    """A snapshot that can be read.

    Raises:
        NotFound: It was not committed yet.
        SnapshotExpired: It has expired and has no tag.
    """
    expired = snapshot_id < head.earliest_snapshot_id
    tagged = expired and await tx.has_tag(head.table_id, snapshot_id)
    if expired and not tagged:
        raise to_expired(head, snapshot_id, [each.snapshot_id for each in await tx.list_tags(head.table_id)])
    check_retained(head, snapshot_id, tagged=tagged)
    return await load_snapshot(tx, head, snapshot_id)


async def load_snapshot(tx: Transaction, head: TableHead, snapshot_id: int) -> Snapshot:
    """A snapshot that exists, according to a head.

    Raises:
        TransactionAborted: It expired since the head was read.
    """
    found = await tx.list_snapshots(head.table_id, snapshot_id - 1, snapshot_id, 1)
    if not found:
        raise to_overtaken(head)
    return found[0]


def to_overtaken(head: TableHead) -> TransactionAborted:
    """The error when something expired since a head was read without a lock: everything is read again."""
    return TransactionAborted(f"Snapshots of {head.name} expired while they were looked at. Try again.")


async def load_tag(tx: Transaction, head: TableHead, name: str) -> Tag:
    """A tag by its name.

    Raises:
        NotFound: The table has none of this name; names the nearest ones.
    """
    found = await tx.find_tag(head.table_id, name)
    if found is None:
        raise to_unknown_tag(head.name, name, [tag.name for tag in await tx.list_tags(head.table_id)])
    return found
