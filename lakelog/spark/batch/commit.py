"""Commits what tasks have written: one attempt, one commit, and the clean-up of files on every way out.

1. The attempt is opened before the tasks begin, so its files are known to be in use.
2. Only files of task attempts whose result reached the driver are committed. They are ordered by the number of the
   task's partition, then as the task wrote them, never by the time that tasks finish (semantics 1.3).
3. The commit is repeated until its outcome is known; it is applied once for (table, writer, identifier). A commit with
   a changelog by `lookup` is refused if others changed its buckets meanwhile; then their old rows are looked up again.
4. Files are deleted as `lakelog.writes.attempt` says, and so are files that no committed task wrote.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import RandomIds, SystemClock
from lakelog.errors import LakelogError
from lakelog.format.commit.log_content import plan_log_content
from lakelog.format.commit.request import (
    CommitRequest,
    CommitResult,
    Fence,
    Removal,
    RemoveEverything,
    RemovePartitions,
    RemovePartitionValues,
    TableGuard,
)
from lakelog.format.commit.writer_names import make_one_time_name
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.table import TableInfo
from lakelog.options.values import TableOptions
from lakelog.results import WriteResult
from lakelog.spark.connection import open_caches, open_table_store
from lakelog.spark.executor.uncommitted import merge_sent
from lakelog.spark.executor.write import LookupBase
from lakelog.spark.executor.written_files import WrittenFiles
from lakelog.spark.executor_files import check_files_are_here
from lakelog.storage.lookup.bucket_changelog import ChangelogExecutor, emit_in_threads
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.rewrite.commit_merge import CommitMerger, MergeFiles, merge_commit_files, merge_in_threads
from lakelog.storage.write.input_copies import InputCopies, plan_input_copies
from lakelog.storage.write.removed_rows import RemovedRows
from lakelog.writes.attempt import CommitAttempt, Repeating
from lakelog.writes.attempts_ahead import AttemptsAhead, CommitPurpose
from lakelog.writes.change import to_change
from lakelog.writes.changelog.commit_changelog import commit_lookups, find_producer
from lakelog.writes.changelog.lookup_changelog import LookupChangelog
from lakelog.writes.commit_metadata import CommitMetadata, check_identity, name_dropped_table
from lakelog.writes.commit_options import NO_GUARDS, Guards
from lakelog.writes.overwrite import StaticPartition
from lakelog.writes.uncommitted_sending import SentUncommitted


@dataclass(frozen=True)
class CommitParameters:
    """The identity of a commit, and what it says besides its rows. Picklable.

    Args:
        writer: The writer's name; None: a new unique name.
        identifier: The writer's own number of the commit; given if and only if `writer` is.
        previous_identifier: The required identifier of the writer's last commit; -1: none; None: not checked.
        watermark_ms: Milliseconds since the epoch; None: none.
        properties: Texts by name, stored with the snapshot.
        allow_empty: Make a snapshot even without rows.
        fences: Leases that must still be held.
        guards: Snapshots since which nothing may have changed.
    """

    writer: str | None = None
    identifier: int | None = None
    previous_identifier: int | None = None
    watermark_ms: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    allow_empty: bool = False
    fences: tuple[Fence, ...] = ()
    guards: Guards = NO_GUARDS

    def __post_init__(self) -> None:
        check_identity(self.writer, self.identifier, self.previous_identifier)


@dataclass(frozen=True)
class Overwrite:
    """What a commit replaces. Picklable.

    Args:
        static: The partitions with these values; None: see `dynamic`.
        dynamic: Replace the partitions of the new rows; False, without the others: replace everything.
        removed_rows: Remove these rows of an append table.
    """

    static: StaticPartition | None = None
    dynamic: bool = False
    removed_rows: RemovedRows | None = None

    def to_removal(self, files: Iterable[DataFile]) -> Removal | None:
        """Returns what to remove, given the new files; None: only rows by their positions."""
        if self.removed_rows is not None:
            return None
        if self.static is not None:
            return RemovePartitionValues(self.static.encoded)
        if self.dynamic:
            return RemovePartitions(tuple(sorted({file.partition for file in files})))
        return RemoveEverything()


@dataclass(frozen=True)
class Attempt:
    """An open attempt to commit to one table. Picklable."""

    info: TableInfo
    attempt_id: str
    writer: str


def plan_copies(info: TableInfo, options: TableOptions, overwrite: Overwrite | None) -> InputCopies:
    """Which records the tasks of a write also write as they arrived. Pure."""
    replaces = overwrite is not None
    log = plan_log_content(info, options, replaces=replaces)
    return plan_input_copies(options, find_producer(options, replaces=replaces), log)


def open_attempt(metastore: Metastore, info: TableInfo, writer: str | None, identifier: int | None = None) -> Attempt:
    """Opens an attempt; a writer without a name gets a unique one.

    Args:
        metastore: The metastore that opens it.
        info: The table.
        writer: The writer's name.
        identifier: The writer's number of the commit; None: not known, or the writer has no name.
    """
    name = writer or make_one_time_name("spark", RandomIds().new_id())
    staged = metastore.stage_attempt([info.table_uuid], name, identifier=identifier)
    return Attempt(info, staged.attempt_id, name)


def take_attempt(ahead: AttemptsAhead, info: TableInfo, writer: str | None, identifier: int | None = None) -> Attempt:
    """As `open_attempt`, for a write that only adds rows: it can use an attempt that was opened ahead."""
    name = writer or make_one_time_name("spark", RandomIds().new_id())
    opened = ahead.take(info.table_uuid, CommitPurpose(name, identifier))
    return Attempt(info, opened.attempt_id, name)


def commit_attempt(
    metastore: Metastore,
    attempt: Attempt,
    written: Iterable[WrittenFiles],
    parameters: CommitParameters,
    overwrite: Overwrite | None,
    base: LookupBase | None = None,
    execute: ChangelogExecutor = emit_in_threads,
    merge: MergeFiles | None = merge_in_threads,
) -> WriteResult:
    """Commits what tasks wrote, with the changelog that the table asks for. Blocks until the outcome is known.

    If the table has `precommit-compact`, small files are merged first.

    Args:
        metastore: Receives the commit.
        attempt: The open attempt that owns the files.
        written: What each task wrote, in any order, one for a task.
        parameters: The commit's identity and metadata.
        overwrite: What it replaces; None: it adds rows.
        base: The state against which tasks made their changelogs; None: they have made none.
        execute: Looks up what no task has looked up, and again what another commit has changed.
        merge: Merges small files; None: each task has merged its own, as it must if it made its changelogs.

    Raises:
        CommitConflict: Another commit changed what this one assumed; nothing happened, and the files are deleted.
        InvalidArgument: Executors wrote files to disks of their own (reason `FOLDER_NOT_SHARED`); nothing happened.
        OutcomeUnknown: The answer was lost; nothing is deleted. Repeating the write under the same writer and
            identifier is safe.
    """
    ordered = sorted(written, key=lambda each: each.partition_id)
    files = tuple(file for each in ordered for file in each.files)
    producer = find_producer(TableOptions(attempt.info.options), replaces=overwrite is not None)
    inputs = tuple(file for each in ordered for file in each.inputs)
    sent = merge_sent(ordered, has_key=bool(attempt.info.schema.primary_key))
    lookup: LookupChangelog | None = None

    try:
        with CommitAttempt(metastore, attempt.writer, attempt.attempt_id) as opened:
            store = opened.add_store(open_table_store(attempt.info.location))
            written_paths = (file.path for file in (*files, *inputs))
            check_files_are_here(str(attempt.info.name), attempt.info.location, written_paths)

            def try_commit() -> CommitResult:
                request = _make_request(attempt, files, parameters, overwrite, inputs, sent, lookup)
                return opened.commit(request, Repeating(SystemClock(), random.random))

            if merge is not None:
                merger = CommitMerger(attempt.info.schema, TableOptions(attempt.info.options), attempt.attempt_id)
                files, inputs = merge_commit_files(merger, store, files, inputs, merge=merge)
            if producer == "lookup" and files:
                lookup = _open_lookup(metastore, store, attempt, files, execute)
                if base is not None:
                    emitted = (each_emitted for each in ordered for each_emitted in each.emitted)
                    lookup.take(base.snapshot_id, base.snapshot_uuid, emitted)
            answer = commit_lookups([] if lookup is None else [lookup], try_commit, SystemClock(), random.random)
            # Files that are not committed come from task attempts that failed, or that repeated the work of another
            # one.
            removed = overwrite.removed_rows if overwrite is not None else None
            named = {file.path for file in (*files, *inputs)} | set(() if lookup is None else lookup.paths)
            opened.delete_unnamed(named | set(() if removed is None else removed.paths))
    except LakelogError as error:
        dropped = name_dropped_table(error, {attempt.info.table_uuid: str(attempt.info.name)})
        if dropped is not None:
            raise dropped from error
        raise
    return WriteResult(answer.results[0].snapshot_id, opened.was_applied_before)


def _open_lookup(
    metastore: Metastore, store: ObjectStore, attempt: Attempt, files: tuple[DataFile, ...], execute: ChangelogExecutor
) -> LookupChangelog:
    return LookupChangelog(
        metastore, store, attempt.info, attempt.attempt_id, files, open_caches(), SystemClock(), execute
    )


def abandon_attempt(metastore: Metastore, attempt: Attempt) -> None:
    """Aborts an attempt, and deletes its files once it is certainly aborted; never raises lakelog errors."""
    with CommitAttempt(metastore, attempt.writer, attempt.attempt_id) as opened:
        opened.add_store(open_table_store(attempt.info.location))


def _make_request(
    attempt: Attempt,
    files: tuple[DataFile, ...],
    parameters: CommitParameters,
    overwrite: Overwrite | None,
    inputs: tuple[DataFile, ...],
    sent: SentUncommitted | None,
    lookup: LookupChangelog | None,
) -> CommitRequest:
    info = attempt.info
    change = to_change(
        info,
        files,
        inputs,
        removal=None if overwrite is None else overwrite.to_removal(files),
        removed_rows=None if overwrite is None else overwrite.removed_rows,
        lookup=lookup,
        sent=sent,
        guards=parameters.guards,
        commit_metadata=CommitMetadata(parameters.watermark_ms, parameters.properties, parameters.allow_empty),
    )
    return CommitRequest(
        writer=attempt.writer,
        identifier=parameters.identifier or 0,
        changes=(change,),
        attempt_id=attempt.attempt_id,
        previous_identifier=parameters.previous_identifier,
        fences=parameters.fences,
        guards=()
        if parameters.guards.if_snapshot is None
        else (TableGuard(info.table_uuid, parameters.guards.if_snapshot),),
    )
