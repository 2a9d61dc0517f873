"""What commits guard: the facts read while the heads are locked (`lakelog.format.commit.guards` judges them)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakelog.format.commit.facts import BucketChange, FileFacts, GuardedChange, GuardFacts, TableHead
from lakelog.format.commit.guards import MAX_GUARDED_PLACES, Places, count_places, find_touched, to_places
from lakelog.format.commit.request import Change, CommitRequest, RemovePartitionValues, count_items
from lakelog.format.keys.encoding import MAX_PARTITION_BYTES
from lakelog.format.tables.snapshot import Snapshot

from ..heavy_work import WorkThreads
from ..store.limits import MAX_INT32, Limits
from ..store.transaction import Transaction
from ..store.validation import check_bytes, check_number, check_uuid, invalid
from ..tables.partitions import PartitionRules


def check_guard_request(request: CommitRequest, limits: Limits) -> None:
    """Check all parts of a commit's guards that can be checked without their tables."""
    if len(request.guards) > limits.max_commit_tables:
        raise invalid("guards", f"{len(request.guards)} guards", f"Give at most {limits.max_commit_tables}.")
    count = sum(map(count_places, request.guards))
    if count > MAX_GUARDED_PLACES:
        raise invalid(
            "guards.buckets",
            f"{count} partitions and buckets",
            f"Give at most {MAX_GUARDED_PLACES} for all tables, or none for one, which guards the whole table.",
        )
    for guard in request.guards:
        check_uuid("guards.table_uuid", guard.table_uuid)
        check_number("if_snapshot", guard.if_snapshot, 0)
        if guard.snapshot_uuid:
            check_uuid("guards.snapshot_uuid", guard.snapshot_uuid)
        for bucket in guard.buckets:
            check_number("guards.buckets.bucket", bucket.bucket, 0, MAX_INT32)
        for partition in (*guard.partitions, *(bucket.partition for bucket in guard.buckets)):
            check_bytes("guards.partitions", partition, MAX_PARTITION_BYTES)
    for change in request.changes:
        if change.if_unchanged is not None:
            check_number("if_unchanged", change.if_unchanged, 0)


async def load_guards(
    transaction: Transaction,
    request: CommitRequest,
    heads: Mapping[str, TableHead],
    files: Mapping[str, Sequence[FileFacts]],
    partitions: PartitionRules,
    threads: WorkThreads,
) -> tuple[list[GuardFacts], dict[str, GuardedChange]]:
    """The changes since the snapshots that a commit's guards name.

    Returns:
        The facts of the guards, in their order, and by table uuid what has changed of that which changes touch.
    """
    found: list[GuardFacts] = []
    for guard in request.guards:
        head = heads.get(guard.table_uuid)
        if head is None:
            # The verdict reports it.
            found.append(GuardFacts())
            continue
        places = await threads.run(count_places(guard), to_places, guard)
        newest = await _find_change(transaction, head, guard.if_snapshot, places)
        base = await find_uuid(transaction, head, guard.if_snapshot) if guard.snapshot_uuid else ""
        found.append(GuardFacts(await _place(transaction, head, newest, partitions), base))
    touched: dict[str, GuardedChange] = {}
    for change in request.changes:
        head = heads.get(change.table_uuid)
        if change.if_unchanged is None or head is None:
            continue
        last = await _find_touched(transaction, change, head, files.get(change.table_uuid, ()), partitions, threads)
        placed = await _place(transaction, head, last, partitions)
        if placed is not None:
            touched[change.table_uuid] = placed
    return found, touched


async def find_uuid(transaction: Transaction, head: TableHead, snapshot_id: int) -> str:
    """The uuid of a snapshot in the table's present history; empty if it expired, or does not exist yet."""
    if snapshot_id == head.latest_snapshot_id:
        return head.latest_uuid
    if not head.earliest_change_id <= snapshot_id < head.latest_snapshot_id:
        return ""
    found = await transaction.list_snapshots(head.table_id, snapshot_id - 1, snapshot_id, 1)
    return found[0].snapshot_uuid if found else ""


async def _find_touched(
    transaction: Transaction,
    change: Change,
    head: TableHead,
    files: Sequence[FileFacts],
    partitions: PartitionRules,
    threads: WorkThreads,
) -> Snapshot | BucketChange | None:
    assert change.if_unchanged is not None, "the caller has looked"
    if change.if_unchanged >= head.latest_snapshot_id:
        return None
    matching: Sequence[bytes] = ()
    if isinstance(change.remove, RemovePartitionValues):
        known = await transaction.list_partitions(head.table_id)
        matching = await partitions.matching(transaction, head, known, change)
    touched = await threads.run(count_items(change) + len(matching), find_touched, change, files, matching)
    return await _find_change(transaction, head, change.if_unchanged, touched)


async def _find_change(
    transaction: Transaction, head: TableHead, after: int, places: Places | None
) -> Snapshot | BucketChange | None:
    """The newest change of rows after a snapshot, in some places or, with None, in the whole table."""
    if after >= head.latest_snapshot_id:
        return None
    if places is None:
        return await transaction.find_newest_change(head.table_id, after)
    found = await transaction.find_changes(head.table_id, after, places.buckets, places.partitions)
    return found[-1] if found else None


async def _place(
    transaction: Transaction, head: TableHead, change: Snapshot | BucketChange | None, partitions: PartitionRules
) -> GuardedChange | None:
    """A change with its place in readable form."""
    if not isinstance(change, BucketChange):
        return None if change is None else GuardedChange(change)
    name = await partitions.name_partition(transaction, head, change.bucket.partition)
    places = [f"bucket {change.bucket.bucket}"] if head.bucket_count > 0 else []
    places += [f"partition {name}"] if name else []
    return GuardedChange(change, " of ".join(places))
