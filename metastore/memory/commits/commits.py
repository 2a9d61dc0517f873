"""What the gate reads and writes, in memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lakelog.format.commit.facts import (
    Attempt,
    AttemptState,
    BucketChange,
    FileFacts,
    MovedFile,
    OrderKey,
    PlacedFile,
    RemovedTotals,
    RestoredTotals,
    TableHead,
)
from lakelog.format.commit.request import BucketRef, RemoveEverything, RemoveFiles, RemovePartitions, WriterProgress
from lakelog.format.commit.writer_names import is_of_job
from lakelog.format.jobs.job import JOB_LEASES, JobState
from lakelog.format.tables.snapshot import ChangelogState, Snapshot, SnapshotKind

from ...store.records import MAX_RIVALS, Attachment, GroupFacts, GroupKeys, GroupRecords
from ...store.transaction import CommitTransaction
from ..jobs.jobs import MemoryJobs
from ..state import StoredFile, StoredResult, StoredTable
from .baseline import MemoryBaselines


class MemoryCommits(MemoryJobs, MemoryBaselines, CommitTransaction):
    """See `metastore.store.transaction.CommitTransaction`."""

    async def lock_heads(self, table_uuids: Sequence[str]) -> dict[str, TableHead]:
        wanted = set(table_uuids)
        return {table.new.table_uuid: table.head for table in self._live() if table.new.table_uuid in wanted}

    async def lock_group(self, keys: GroupKeys) -> GroupFacts:
        state = self._state
        heads = await self.lock_heads(keys.table_uuids)
        results, last_identifiers = {}, {}
        for key in keys.results:
            head = heads.get(key.table_uuid)
            if head is None:
                continue
            table = self._table(head.table_id)
            stored = table.results.get((key.writer, key.identifier))
            if stored is not None:
                results[key] = stored.result
            if key.writer in table.last_identifiers:
                last_identifiers[key.table_uuid, key.writer] = table.last_identifiers[key.writer]
        wanted: dict[tuple[str, int | None], int] = {(key.writer, key.identifier): 0 for key in keys.results}
        rivals = {}
        for attempt in state.attempts.values():
            commit = (attempt.writer, attempt.identifier)
            if attempt.state is AttemptState.OPEN and wanted.get(commit, MAX_RIVALS) < MAX_RIVALS:
                wanted[commit] += 1
                rivals[attempt.attempt_id] = attempt
        return GroupFacts(
            now_ms=self._clock.now_ms(),
            heads=heads,
            results=results,
            last_identifiers=last_identifiers,
            epochs={writer: state.epochs[writer] for writer in keys.writers if writer in state.epochs},
            attempts=rivals | {name: state.attempts[name] for name in keys.attempts if name in state.attempts},
            leases={name: epoch for name in keys.leases if (epoch := self._lease_epoch(name)) is not None},
            owners=await self.find_writer_owners((*keys.writers, *keys.leases)),
        )

    async def find_files(self, table_id: int, file_ids: Sequence[int]) -> list[FileFacts]:
        table = self._table(table_id)
        return [_file_facts(table, table.files[file_id]) for file_id in file_ids if file_id in table.files]

    async def find_live_files(self, table_id: int, buckets: Sequence[BucketRef]) -> list[FileFacts]:
        table = self._table(table_id)
        wanted = set(buckets)
        return [
            _file_facts(table, stored)
            for stored in table.files.values()
            if stored.removed_snapshot is None
            and BucketRef(stored.placed.file.partition, stored.placed.file.bucket) in wanted
        ]

    async def find_changes(
        self,
        table_id: int,
        after: int,
        buckets: Iterable[BucketRef],
        partitions: Iterable[bytes] = (),
        *,
        compactions: bool = False,
    ) -> list[BucketChange]:
        table = self._table(table_id)
        wanted, whole = set(buckets), set(partitions)
        found = set()
        for stored in table.files.values():
            bucket = BucketRef(stored.placed.file.partition, stored.placed.file.bucket)
            if bucket not in wanted and bucket.partition not in whole:
                continue
            for snapshot_id in (stored.placed.added_snapshot, stored.removed_snapshot):
                if snapshot_id is not None and snapshot_id > after:
                    snapshot = table.snapshots[snapshot_id - 1]
                    if compactions or snapshot.kind is not SnapshotKind.COMPACT:
                        found.add((snapshot_id, bucket.partition, bucket.bucket))
        return [
            BucketChange(BucketRef(partition, bucket), snapshot_id, each.kind, each.writer, each.committed_at_ms)
            for snapshot_id, partition, bucket in sorted(found)
            for each in [table.snapshots[snapshot_id - 1]]
        ]

    async def find_newest_change(self, table_id: int, after: int) -> Snapshot | None:
        changed = (
            each
            for each in reversed(self._table(table_id).snapshots[after:])
            if each.kind is not SnapshotKind.COMPACT and (each.added_files or each.removed_files)
        )
        return next(changed, None)

    async def list_partitions(self, table_id: int) -> list[bytes]:
        table = self._table(table_id)
        files = [stored.placed.file for stored in table.files.values()]
        return sorted({file.partition for file in (*files, *(placed.file for placed in table.changelog_files))})

    async def mark_removed(
        self, table_id: int, snapshot_id: int, removal: RemoveFiles | RemoveEverything | RemovePartitions
    ) -> RemovedTotals:
        files = rows = size_bytes = 0
        for stored in self._table(table_id).files.values():
            if stored.removed_snapshot is None and _is_removed(stored, removal):
                self._journal.set(stored, "removed_snapshot", snapshot_id)
                files += 1
                rows += stored.placed.file.row_count
                size_bytes += stored.placed.file.size_bytes
        return RemovedTotals(files, rows, size_bytes)

    async def restore_files(self, head: TableHead, snapshot_id: int, *, keyed: bool) -> RestoredTotals:
        files, new = self._table(head.table_id).files, head.latest_snapshot_id + 1
        then = {_entry(stored, keyed): stored for stored in files.values() if _is_live_at(stored, snapshot_id)}
        now = {_entry(stored, keyed): stored for stored in files.values() if stored.removed_snapshot is None}
        # An entry that got a deletion vector later is another one: the vector may be of files that were not there then.
        marked = {entry for entry, stored in now.items() if entry in then and not _says_no_more(stored, then[entry])}
        # All files that share an order key get new ids.
        missing = [stored for entry, stored in then.items() if entry not in now or entry in marked]
        places = {_shared_order_key(stored.placed) for stored in missing} - {None}
        beside = {entry for entry in then if entry in now and _shared_order_key(then[entry].placed) in places} | marked
        ended = [stored for entry, stored in now.items() if entry not in then or entry in beside]
        back = [stored for entry, stored in then.items() if entry not in now or entry in beside]
        back.sort(key=lambda stored: stored.placed.file_id)
        for stored in ended:
            self._journal.set(stored, "removed_snapshot", new)
        for file_id, stored in enumerate(back, head.next_file_id):
            file = replace(stored.placed.file, deletion_vector_path=None) if keyed else stored.placed.file
            self._journal.put(files, file_id, StoredFile(PlacedFile(file_id, file, new, stored.placed.order_key)))
        return RestoredTotals(RemovedTotals(*_totals(ended)), *_totals(back))

    async def record_group(self, records: GroupRecords) -> None:
        journal = self._journal
        for head in records.heads:
            journal.set(self._table(head.table_id), "head", head)
        for table_id, snapshot in records.snapshots:
            snapshots = self._table(table_id).snapshots
            assert snapshot.snapshot_id == len(snapshots) + 1, "snapshot ids are latest + 1"
            journal.append(snapshots, snapshot)
        for table_id, placed in records.files:
            journal.put(self._table(table_id).files, placed.file_id, StoredFile(placed))
        for table_id, moved in records.moved_files:
            files = self._table(table_id).files
            journal.put(files, moved.file_id, StoredFile(_moved(files[moved.source_id].placed, moved)))
        for table_id, changelog_file in records.changelog_files:
            journal.append(self._table(table_id).changelog_files, changelog_file)
        for table_id, baseline in records.baseline:
            self._change_baseline(table_id, baseline)
        for new in records.results:
            table = self._table(new.table_id)
            journal.put(table.results, (new.writer, new.identifier), StoredResult(new.result, dict(new.properties)))
            last = max(table.last_identifiers.get(new.writer, -1), new.identifier)
            journal.put(table.last_identifiers, new.writer, last)
        for attempt_id, state in records.attempts.items():
            await self.set_attempt(attempt_id, state)
        for due in records.jobs.values():
            self._make_due_by_commit(due)
        await self.claim_writers(records.claims)

    async def list_open_snapshots(self, table_id: int, limit: int) -> list[Snapshot]:
        found = (each for each in self._table(table_id).snapshots if each.changelog is ChangelogState.PENDING)
        return list(itertools.islice(found, limit))

    async def attach_changelogs(self, attachment: Attachment) -> None:
        table = self._table(attachment.head.table_id)
        self._journal.set(table, "head", attachment.head)
        snapshots = list(table.snapshots)
        for snapshot_id in attachment.snapshot_ids:
            snapshots[snapshot_id - 1] = replace(snapshots[snapshot_id - 1], changelog=ChangelogState.ATTACHED)
        self._journal.set(table, "snapshots", snapshots)
        for file in attachment.files:
            self._journal.append(table.changelog_files, file)
        await self.set_attempt(attachment.attempt_id, AttemptState.COMMITTED)

    async def insert_attempts(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            self._journal.put(self._state.attempts, attempt.attempt_id, attempt)
            self._journal.put(self._state.attempt_times, attempt.attempt_id, self._clock.now_ms())

    async def lock_attempt(self, attempt_id: str) -> Attempt | None:
        return self._state.attempts.get(attempt_id)

    async def set_attempt(self, attempt_id: str, state: AttemptState) -> None:
        attempts = self._state.attempts
        self._journal.put(attempts, attempt_id, replace(attempts[attempt_id], state=state))

    async def set_attempt_tables(self, attempt_id: str, table_uuids: Sequence[str]) -> None:
        attempts = self._state.attempts
        self._journal.put(attempts, attempt_id, replace(attempts[attempt_id], table_uuids=tuple(table_uuids)))

    async def raise_writer_epoch(self, writer: str) -> int:
        epoch = self._make_epoch(self._state.epochs.get(writer, 0))
        self._journal.put(self._state.epochs, writer, epoch)
        self._journal.put(self._state.writer_times, writer, self._clock.now_ms())
        return epoch

    async def abort_fenced_attempts(self, writer: str, epoch: int) -> None:
        for each in list(self._state.attempts.values()):
            is_known = each.writer == writer and each.identifier is not None
            if is_known and each.state is AttemptState.OPEN and each.epoch < epoch:
                await self.set_attempt(each.attempt_id, AttemptState.ABORTED)

    async def find_writer_owners(self, writers: Sequence[str]) -> dict[str, str]:
        owners = {writer: owner for writer in writers if (owner := self._state.writer_owners.get(writer))}
        held = {each.job.lease: each.job for each in self._state.jobs.values() if each.job.state is JobState.LEASED}
        return owners | {writer: held[writer].owner for writer in writers if writer in held}

    async def claim_writers(self, claims: Mapping[str, str]) -> dict[str, str]:
        owners = self._state.writer_owners
        for writer, owner in claims.items():
            if not is_of_job(writer) and not owners.get(writer):
                self._journal.put(owners, writer, owner)
                self._journal.put(self._state.writer_times, writer, self._clock.now_ms())
        return await self.find_writer_owners(list(claims))

    async def release_writer(self, writer: str) -> str:
        owner = self._state.writer_owners.get(writer, "")
        if owner:
            self._journal.pop(self._state.writer_owners, writer)
        return owner

    async def forget_unused_writers(self, after: str, unused_ms: int, limit: int) -> tuple[str, list[str]]:
        """Removes names without a commit that no one uses."""
        state = self._state
        used = {each.writer for each in state.attempts.values() if each.state is not AttemptState.COMMITTED}
        used |= {writer for table in state.tables for writer in table.last_identifiers}
        names = sorted(writer for writer in state.writer_times if writer > after)[:limit]
        old_ms = self._clock.now_ms() - unused_ms
        removed = [each for each in names if each not in used and state.writer_times[each] < old_ms]
        for writer in removed:
            for mapping in (state.epochs, state.writer_owners, state.writer_times):
                if writer in mapping:
                    self._journal.pop(mapping, writer)  # type: ignore[misc]
        return names[-1] if len(names) == limit else "", removed

    async def find_progress(self, table_id: int, writer: str) -> WriterProgress:
        table = self._table(table_id)
        epoch = self._state.epochs.get(writer, 0)
        last = table.last_identifiers.get(writer)
        if last is None:
            return WriterProgress(None, None, {}, epoch)
        stored = table.results[writer, last]
        return WriterProgress(last, stored.result.snapshot_id, stored.properties, epoch)

    def _lease_epoch(self, name: str) -> int | None:
        if name.startswith(JOB_LEASES):
            return next((each.job.epoch for each in self._state.jobs.values() if each.job.lease == name), None)
        lease = self._state.leases.get(name)
        return None if lease is None else lease.epoch


def _is_removed(stored: StoredFile, removal: RemoveFiles | RemoveEverything | RemovePartitions) -> bool:
    match removal:
        case RemoveFiles(file_ids):
            return stored.placed.file_id in file_ids
        case RemovePartitions(partitions):
            return stored.placed.file.partition in partitions
        case RemoveEverything():
            return True


def _entry(stored: StoredFile, keyed: bool) -> tuple[str, int, str | None]:
    """What distinguishes a file from all others of its state, and is the same in another state.

    Without a primary key the deletion vector says which rows of the file belong to the state.
    """
    file = stored.placed.file
    return file.path, file.level, None if keyed else file.deletion_vector_path


def _says_no_more(now: StoredFile, then: StoredFile) -> bool:
    return now.placed.file.deletion_vector_path in (None, then.placed.file.deletion_vector_path)


def _is_live_at(stored: StoredFile, snapshot_id: int) -> bool:
    removed = stored.removed_snapshot
    return stored.placed.added_snapshot <= snapshot_id and (removed is None or removed > snapshot_id)


def _shared_order_key(placed: PlacedFile) -> tuple[bytes, int, OrderKey] | None:
    """The order key that a compaction gave a file and other files may share; None: no other file can share it."""
    if placed.added_snapshot == placed.order_key.snapshot_id:
        return None
    return placed.file.partition, placed.file.bucket, placed.order_key


def _totals(files: Sequence[StoredFile]) -> tuple[int, int, int]:
    found = [stored.placed.file for stored in files]
    return len(found), sum(file.row_count for file in found), sum(file.size_bytes for file in found)


def _moved(source: PlacedFile, moved: MovedFile) -> PlacedFile:
    # Its deletion vector was built for the files of the moment in which it was added.
    file = replace(
        source.file,
        level=moved.level,
        deletion_vector_path=moved.deletion_vector_path,
        delete_count=source.file.delete_count if moved.delete_count is None else moved.delete_count,
    )
    return PlacedFile(moved.file_id, file, moved.added_snapshot, source.order_key)


def _file_facts(table: StoredTable, stored: StoredFile) -> FileFacts:
    removed = stored.removed_snapshot
    file = stored.placed.file
    return FileFacts(
        file_id=stored.placed.file_id,
        path=file.path,
        partition=file.partition,
        bucket=file.bucket,
        order_key=stored.placed.order_key,
        level=file.level,
        row_count=file.row_count,
        size_bytes=file.size_bytes,
        min_key=file.min_key,
        max_key=file.max_key,
        schema_id=file.schema_id,
        removed_snapshot=removed,
        removed_by="" if removed is None else table.snapshots[removed - 1].writer,
        delete_count=file.delete_count,
        deletion_vector_path=file.deletion_vector_path,
    )
