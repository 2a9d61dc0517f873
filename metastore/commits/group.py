"""Deciding a group of commits inside one transaction: each sees what those before it in the group did."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from lakelog.clock import Ids
from lakelog.errors import Fenced, LakelogError
from lakelog.format.commit.effects import (
    apply_change,
    place_baseline,
    place_changelog,
    place_files,
    place_log_files,
    place_moves,
)
from lakelog.format.commit.facts import (
    AttemptState,
    BaselineChange,
    BucketChange,
    CommitFacts,
    CompactionFacts,
    FileFacts,
    GuardedChange,
    GuardFacts,
    MovedFile,
    PlacedChangelogFile,
    PlacedFile,
    RecordedResult,
    RestoredTotals,
    TableHead,
    WriterFacts,
)
from lakelog.format.commit.rebase import Rebased, rebase_compaction
from lakelog.format.commit.request import (
    Change,
    ChangeResult,
    CommitRequest,
    CommitResult,
    Fence,
    RemoveFiles,
    RemovePartitions,
    RemovePartitionValues,
    RestoreState,
    brings_files,
    count_items,
)
from lakelog.format.commit.rules import Verdict, applied_results, check_commit, find_commit_time
from lakelog.format.commit.totals import check_totals
from lakelog.format.commit.vectors.deletion_vectors import rebase_deletion_vectors
from lakelog.format.commit.vectors.removed_rows import rebase_removed_rows
from lakelog.format.commit.writer_names import is_of_job
from lakelog.format.jobs.job import CHANGELOG, CHANGELOG_PRIORITY, DueJob
from lakelog.format.tables.snapshot import ChangelogState, Snapshot, SnapshotKind
from lakelog.format.types.schema import TableSchema

from ..heavy_work import WorkThreads
from ..logs.publishing import resolve_sent
from ..ownership import Principal, check_attempt_owner, check_writer_owner, is_claimed
from ..store.records import GroupFacts, GroupKeys, GroupRecords, NewResult, ResultKey
from ..store.transaction import Transaction
from ..tables.dropped import explain
from ..tables.partitions import PartitionRules
from .compactions import load_compaction
from .guards import find_uuid, load_guards
from .restoring import resolve_restores

_DECIDED_AT_ONCE: Final = 32
"""How many commits of a group are decided before other tasks run: some milliseconds."""

_NOTHING_REMOVED = RestoredTotals()


@dataclass(frozen=True)
class Asked:
    """A commit and its caller."""

    request: CommitRequest
    by: Principal


@dataclass(frozen=True)
class Accepted:
    """The verdict about a commit that was not refused."""

    result: CommitResult
    outcome: Literal["applied", "already_applied", "empty"]


@dataclass
class GroupState:
    """What is known while a group is decided, and what is written at its end.

    Args:
        facts: As read under the locks, updated with each accepted commit.
        records: What the accepted commits write.
        verdicts: About the requests so far, in their order.
        new_snapshots: By table uuid, in rising order.
        rivals: The ids of the attempts that are for a commit, by its writer and identifier.
    """

    facts: GroupFacts
    records: GroupRecords = field(default_factory=GroupRecords)
    verdicts: list[Accepted | LakelogError] = field(default_factory=list)
    new_snapshots: dict[str, list[Snapshot]] = field(default_factory=dict)
    rivals: dict[tuple[str, int], list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for attempt in self.facts.attempts.values():
            if attempt.identifier is not None:
                self.rivals.setdefault((attempt.writer, attempt.identifier), []).append(attempt.attempt_id)


async def decide(
    transaction: Transaction,
    group: Sequence[Asked],
    keys: GroupKeys,
    ids: Ids,
    partitions: PartitionRules,
    threads: WorkThreads,
) -> GroupState:
    """Locks what the requests touch, decides them in order and writes the results.

    Args:
        transaction: The transaction in which all of it happens.
        group: The commits, in their order.
        keys: What they read and lock.
        ids: Generates the uuids of new snapshots.
        partitions: Checks encoded partitions.
        threads: Where large commits are decided.

    Returns:
        The verdicts and new snapshots; they hold once the transaction has committed.
    """
    state = GroupState(await transaction.lock_group(keys))
    for number, asked in enumerate(group, start=1):
        request = asked.request
        if number % _DECIDED_AT_ONCE == 0:
            # This lets other tasks run.
            await asyncio.sleep(0)
        try:
            _check_owners(asked, state.facts)
            facts = await _load_facts(transaction, request, state.facts, partitions, threads)
            size = _count_items(request, facts)
            verdict = await threads.run(size, check_commit, request, facts)
            if verdict is Verdict.APPLY:
                await _check_by_schema(transaction, request, state.facts, partitions)
                rebased = await threads.run(size, _rebase, request, facts)
                changes = await resolve_restores(transaction, rebased, state.facts.heads)
                changes = await resolve_sent(transaction, changes)
        except LakelogError as error:
            # Nothing of it was written yet: all checks that can refuse a request come before its first change.
            state.verdicts.append(await explain(transaction, error))
        else:
            if verdict is Verdict.ALREADY_APPLIED:
                state.verdicts.append(_answer_again(request, facts, state))
            else:
                state.verdicts.append(await _apply(transaction, request, changes, state, ids, partitions, threads))
                _claim_name(asked, state)
    records = state.records
    if records.results or records.attempts:
        records.heads.extend(state.facts.heads[table_uuid] for table_uuid in state.new_snapshots)
        await transaction.record_group(records)
    return state


def _check_owners(asked: Asked, facts: GroupFacts) -> None:
    """Raises PermissionDenied unless the caller may use the attempt, and the name for a commit that is new."""
    request = asked.request
    attempt = facts.attempts.get(request.attempt_id)
    if attempt is not None:
        # This holds for a repeat too, because its attempt is aborted.
        check_attempt_owner(attempt, asked.by)
    own = [fence for fence in request.fences if fence.lease == request.writer]
    if any(fence.epoch != facts.leases.get(fence.lease) for fence in own):
        # Its holder has lost the job, perhaps to another principal. `check_commit` refuses the fence.
        return
    keys = [ResultKey(change.table_uuid, request.writer, request.identifier) for change in request.changes]
    if not all(key in facts.results for key in keys):
        if own and is_of_job(request.writer) and request.writer not in facts.owners:
            raise _given_back(own[0])
        # A repeat gets its result, even if the name has another owner by now.
        check_writer_owner(request.writer, facts.owners, asked.by)


def _given_back(fence: Fence) -> Fenced:
    return Fenced(
        f"The commit depends on '{fence.lease}' with epoch {fence.epoch}, and that job was given back meanwhile. Stop "
        "this work; what it wrote is of no use.",
        reason="JOB_FENCED",
        metadata={"lease": fence.lease, "epoch": str(fence.epoch)},
    )


def _claim_name(asked: Asked, state: GroupState) -> None:
    """Makes the caller the owner of a name without one, together with the effect: a refused commit claims no name."""
    writer = asked.request.writer
    if is_claimed(writer, asked.by) and writer not in state.facts.owners:
        state.facts.owners[writer] = state.records.claims[writer] = asked.by.name


async def _load_facts(
    transaction: Transaction,
    request: CommitRequest,
    facts: GroupFacts,
    partitions: PartitionRules,
    threads: WorkThreads,
) -> CommitFacts:
    files: dict[str, Sequence[FileFacts]] = {}
    compactions: dict[str, CompactionFacts] = {}
    changes: dict[str, Sequence[BucketChange]] = {}
    bases: dict[str, str] = {}
    schemas: dict[str, Mapping[int, TableSchema]] = {}
    writers: dict[str, WriterFacts] = {}
    for change in request.changes:
        head = facts.heads.get(change.table_uuid)
        if head is None:
            continue
        writers[change.table_uuid] = WriterFacts(
            facts.results.get(ResultKey(change.table_uuid, request.writer, request.identifier)),
            facts.last_identifiers.get((change.table_uuid, request.writer)),
        )
        if isinstance(change.remove, RemoveFiles):
            files[change.table_uuid] = await transaction.find_files(head.table_id, change.remove.file_ids)
        if change.base_snapshot_uuid:
            bases[change.table_uuid] = await find_uuid(transaction, head, change.base_snapshot_id or 0)
        if change.schema_id != head.schema_id:
            versions = [change.schema_id, head.schema_id]
            schemas[change.table_uuid] = await transaction.find_schemas(head.table_id, versions)
        if change.groups:
            compactions[change.table_uuid] = await load_compaction(transaction, head, change, partitions)
        if change.unchanged_buckets and change.base_snapshot_id is not None:
            changes[change.table_uuid] = await transaction.find_changes(
                head.table_id,
                change.base_snapshot_id,
                change.unchanged_buckets,
                # Deletion vectors of files that were rewritten since are meaningless.
                compactions=any(file.deletion_vector_path is not None for file in change.add_files),
            )
    guards: Sequence[GuardFacts] = ()
    touched: dict[str, GuardedChange] = {}
    if any(each.result is None for each in writers.values()):
        guards, touched = await load_guards(transaction, request, facts.heads, files, partitions, threads)
    return CommitFacts(
        heads=facts.heads,
        writers=writers,
        writer_epoch=facts.epochs.get(request.writer, 0),
        attempt=facts.attempts.get(request.attempt_id),
        lease_epochs=facts.leases,
        now_ms=facts.now_ms,
        files=files,
        changes=changes,
        compactions=compactions,
        guards=guards,
        touched=touched,
        bases=bases,
        schemas=schemas,
    )


def _rebase(request: CommitRequest, facts: CommitFacts) -> list[Rebased]:
    """The part of each change that takes effect."""
    compactions = facts.compactions or {}
    rebased = []
    for change in request.changes:
        if change.groups:
            rebase = _pick_rebase(change)
            rebased.append(rebase(change, facts.heads[change.table_uuid], compactions[change.table_uuid]))
        else:
            rebased.append(Rebased(change))
    return rebased


def _pick_rebase(change: Change) -> Callable[[Change, TableHead, CompactionFacts], Rebased]:
    if change.kind is not SnapshotKind.COMPACT:
        return rebase_removed_rows
    return rebase_deletion_vectors if change.groups[0].vector_files else rebase_compaction


async def _check_by_schema(
    transaction: Transaction, request: CommitRequest, facts: GroupFacts, partitions: PartitionRules
) -> None:
    for change in request.changes:
        head = facts.heads[change.table_uuid]
        if head.partitioned or isinstance(change.remove, RemovePartitions | RemovePartitionValues):
            await partitions.check_change(transaction, head, change)
        await partitions.check_deletion_vectors(transaction, head, change)
    for guard in request.guards:
        # The verdict reports a table that is gone.
        if (guarded := facts.heads.get(guard.table_uuid)) is not None:
            await partitions.check_guard(transaction, guarded, guard)


def _answer_again(request: CommitRequest, facts: CommitFacts, state: GroupState) -> Accepted:
    winner, results = applied_results(request, facts)
    attempt = state.facts.attempts.get(request.attempt_id)
    if attempt is not None and attempt.attempt_id != winner and attempt.state is AttemptState.OPEN:
        # Its files are useless; from now on no one can commit them, so the caller may delete them.
        state.facts.attempts[attempt.attempt_id] = replace(attempt, state=AttemptState.ABORTED)
        state.records.attempts[attempt.attempt_id] = AttemptState.ABORTED
    return Accepted(CommitResult(winner, results), "already_applied")


async def _apply(
    transaction: Transaction,
    request: CommitRequest,
    changes: Sequence[Rebased],
    state: GroupState,
    ids: Ids,
    partitions: PartitionRules,
    threads: WorkThreads,
) -> Accepted:
    results = []
    made: dict[str, tuple[int, Snapshot]] = {}
    now_ms = find_commit_time(request, state.facts.heads, state.facts.now_ms)
    for rebased in changes:
        change = rebased.change
        head = state.facts.heads[change.table_uuid]
        removed = await _remove(transaction, change, head, partitions)
        effect = await threads.run(
            count_items(change), _find_effect, request, rebased, head, removed, now_ms, ids.new_id()
        )
        # SUBTLE: only now, when files are marked, is it known which are removed. Refusing here gives up the
        # transaction, and the gate repeats the group commit by commit.
        check_totals(head, effect.head)
        if effect.snapshot is None:
            result = ChangeResult(change.table_uuid, None, dropped=rebased.dropped, table=head.name)
        else:
            snapshot = effect.snapshot
            result = ChangeResult(
                change.table_uuid,
                snapshot.snapshot_id,
                snapshot.snapshot_uuid,
                snapshot.committed_at_ms,
                rebased.dropped,
                head.name,
            )
            table_id, records = head.table_id, state.records
            records.files.extend(effect.files)
            records.moved_files.extend(effect.moved_files)
            records.changelog_files.extend(effect.changelog_files)
            if effect.baseline is not None:
                records.baseline.append((table_id, effect.baseline))
            made[change.table_uuid] = (table_id, snapshot)
            state.facts.heads[change.table_uuid] = effect.head
        _record_result(request, change, head.table_id, result, state)
        results.append(result)
    snapshot_ids = {table_uuid: snapshot.snapshot_id for table_uuid, (_, snapshot) in made.items()}
    for table_uuid, (table_id, alone) in made.items():
        snapshot = replace(alone, co_committed={other: n for other, n in snapshot_ids.items() if other != table_uuid})
        state.records.snapshots.append((table_id, snapshot))
        if snapshot.changelog is ChangelogState.PENDING:
            state.records.jobs[table_id, CHANGELOG, ""] = DueJob(table_id, CHANGELOG, priority=CHANGELOG_PRIORITY)
        state.new_snapshots.setdefault(table_uuid, []).append(snapshot)
    _abort_rivals(request, state)
    attempt = state.facts.attempts.get(request.attempt_id)
    if attempt is not None:
        end = _end_attempt(request, changes)
        state.facts.attempts[attempt.attempt_id] = replace(attempt, state=end)
        state.records.attempts[attempt.attempt_id] = end
    is_empty = all(result.snapshot_id is None for result in results)
    return Accepted(CommitResult(request.attempt_id, tuple(results)), "empty" if is_empty else "applied")


def _abort_rivals(request: CommitRequest, state: GroupState) -> None:
    """Aborts other attempts for the same commit: a repeat gets this result, so they are never committed.

    An attempt with none of the commit's tables is for another commit that happens to have the same number.
    """
    tables = set(request.table_uuids)
    for attempt_id in state.rivals.get((request.writer, request.identifier), ()):
        rival = state.facts.attempts[attempt_id]
        if attempt_id == request.attempt_id or rival.state is not AttemptState.OPEN:
            continue
        if tables.intersection(rival.table_uuids):
            state.facts.attempts[attempt_id] = replace(rival, state=AttemptState.ABORTED)
            state.records.attempts[attempt_id] = AttemptState.ABORTED


@dataclass(frozen=True)
class _Effect:
    """The effects of a change: the next head, its snapshot, and its files with their tables."""

    head: TableHead
    snapshot: Snapshot | None
    files: Sequence[tuple[int, PlacedFile]] = ()
    moved_files: Sequence[tuple[int, MovedFile]] = ()
    changelog_files: Sequence[tuple[int, PlacedChangelogFile]] = ()
    baseline: BaselineChange | None = None


def _find_effect(
    request: CommitRequest, rebased: Rebased, head: TableHead, removed: RestoredTotals, now_ms: int, uuid: str
) -> _Effect:
    change, table_id = rebased.change, head.table_id
    after, snapshot = apply_change(request, rebased, head, removed, now_ms, uuid)
    if snapshot is None:
        return _Effect(after, None)
    changelog = (*place_changelog(change, snapshot), *place_log_files(change, snapshot))
    return _Effect(
        after,
        snapshot,
        [(table_id, file) for file in place_files(rebased, head, snapshot)],
        [(table_id, file) for file in place_moves(rebased, head, snapshot.snapshot_id)],
        [(table_id, file) for file in changelog],
        place_baseline(rebased, head, snapshot),
    )


def _count_items(request: CommitRequest, facts: CommitFacts) -> int:
    """How many items are checked one by one to decide about a commit."""
    live = sum(len(compaction.live) for compaction in (facts.compactions or {}).values())
    return live + sum(count_items(change) for change in request.changes)


def _end_attempt(request: CommitRequest, changes: Sequence[Rebased]) -> AttemptState:
    """Aborted if it brought files and all of them were dropped: a clean-up then finds them like any others."""
    brought = any(brings_files(change) for change in request.changes)
    stands = any(brings_files(rebased.change) for rebased in changes)
    return AttemptState.ABORTED if brought and not stands else AttemptState.COMMITTED


async def _remove(
    transaction: Transaction, change: Change, head: TableHead, partitions: PartitionRules
) -> RestoredTotals:
    removal = change.remove
    if removal is None:
        return _NOTHING_REMOVED
    if isinstance(removal, RestoreState):
        assert removal.snapshot_id is not None, "it was settled"
        keyed = await partitions.has_key(transaction, head)
        return await transaction.restore_files(head, removal.snapshot_id, keyed=keyed)
    if isinstance(removal, RemovePartitionValues):
        known = await transaction.list_partitions(head.table_id)
        removal = RemovePartitions(await partitions.matching(transaction, head, known, change))
    return RestoredTotals(await transaction.mark_removed(head.table_id, head.latest_snapshot_id + 1, removal))


def _record_result(
    request: CommitRequest, change: Change, table_id: int, result: ChangeResult, state: GroupState
) -> None:
    recorded = RecordedResult(
        request.attempt_id, result.snapshot_id, result.snapshot_uuid, result.committed_at_ms, result.dropped
    )
    state.records.results.append(NewResult(table_id, request.writer, request.identifier, recorded, change.properties))
    # Later commits of the group must see it: a repeat of the same identifier, and the writer's next one.
    facts = state.facts
    facts.results[ResultKey(change.table_uuid, request.writer, request.identifier)] = recorded
    writer_at = (change.table_uuid, request.writer)
    facts.last_identifiers[writer_at] = max(facts.last_identifiers.get(writer_at, -1), request.identifier)
