"""What commits guard: the facts read while the heads are locked (`lakelog.format.commit.guards` judges them)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakelog.format.commit.facts import BucketChange, FileFacts, GuardFacts, TableHead
from lakelog.format.commit.guards import find_touched
from lakelog.format.commit.request import Change, CommitRequest, RemovePartitionValues, count_items
from lakelog.format.tables.snapshot import Snapshot

from ..heavy_work import WorkThreads
from ..store.limits import Limits
from ..store.transaction import Transaction
from ..store.validation import check_number, check_uuid, invalid
from ..tables.partitions import PartitionRules


def check_guard_request(request: CommitRequest, limits: Limits) -> None:
    """Check all parts of a commit's guards that can be checked without their tables."""
    uuids = [guard.table_uuid for guard in request.guards]
    if len(uuids) > limits.max_commit_tables or len(set(uuids)) < len(uuids):
        raise invalid(
            "guards", f"{len(uuids)} guards", f"Give at most {limits.max_commit_tables}, and each table once."
        )
    for guard in request.guards:
        check_uuid("guards.table_uuid", guard.table_uuid)
        check_number("if_snapshot", guard.if_snapshot, 0)
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
) -> dict[str, GuardFacts]:
    """The changes after the snapshots that a commit's guards name, by table uuid."""
    newest: dict[str, Snapshot | None] = {}
    for guard in request.guards:
        head = heads.get(guard.table_uuid)
        if head is not None:
            newest[guard.table_uuid] = await _find_newest(transaction, head, guard.if_snapshot)
    found = {table_uuid: GuardFacts(table=snapshot) for table_uuid, snapshot in newest.items()}
    for change in request.changes:
        head = heads.get(change.table_uuid)
        if change.if_unchanged is None or head is None:
            continue
        touched = await _find_touched(transaction, change, head, files.get(change.table_uuid, ()), partitions, threads)
        table = newest.get(change.table_uuid)
        if not isinstance(touched, BucketChange):
            found[change.table_uuid] = GuardFacts(table, touched)
            continue
        bucket = touched.bucket.bucket if head.bucket_count > 0 else None
        name = await partitions.name_partition(transaction, head, touched.bucket.partition)
        found[change.table_uuid] = GuardFacts(table, touched, name, bucket)
    return found


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
        matching = await partitions.matching(transaction, head, known, change.remove.values)
    touched = await threads.run(count_items(change) + len(matching), find_touched, change, files, matching)
    if touched is None:
        return await _find_newest(transaction, head, change.if_unchanged)
    found = await transaction.find_changes(head.table_id, change.if_unchanged, touched.buckets, touched.partitions)
    return found[-1] if found else None


async def _find_newest(transaction: Transaction, head: TableHead, after: int) -> Snapshot | None:
    if after >= head.latest_snapshot_id:
        return None
    return await transaction.find_newest_change(head.table_id, after)
