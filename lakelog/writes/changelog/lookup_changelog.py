"""The changelog that a writer makes before its commit: it looks old rows up and writes the difference (semantics 3.5).

Objectives, which conflict: a changelog is never wrong; other writers are never blocked; little work is done twice. So:

1. Old rows are those of the newest snapshot, the base. The commit names the base and the buckets it touched. The gate
   refuses it if one of them got other data since, because the rows looked up are then out of date.
2. A refused writer looks up again, only in the buckets whose files have changed, and commits on the new base.
3. This module decides what is looked up, and where. `storage/lookup/bucket_changelog.py` does it, bucket by bucket.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.format.commit.request import ANY_TIME, BucketRef, TimeWindow
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.table import TableInfo
from lakelog.options.values import TableOptions
from lakelog.storage.lookup.bucket_changelog import (
    BucketChangelogs,
    BucketLookup,
    ChangelogExecutor,
    EmittedBucket,
    emit_in_threads,
    to_added,
    to_lookups,
)
from lakelog.storage.lookup.bucket_changes import Bucket, to_plan_request
from lakelog.storage.lookup.caches import Caches
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import to_live_files


class LookupChangelog:
    """The changelog of what one commit writes to one table. For one thread at a time; blocks on storage.

    Args:
        metastore: Plans the base.
        store: Where the table's files are.
        info: The table.
        attempt_id: The attempt that owns the changelog files.
        files: The data files of the commit, in its order.
        caches: Used for the old rows.
        clock: For how long deletes go on beating late rows.
        execute: Does the work.
        runs: Rows of some of the files by path, if they are in memory.
    """

    def __init__(
        self,
        metastore: Metastore,
        store: ObjectStore,
        info: TableInfo,
        attempt_id: str,
        files: Sequence[DataFile],
        caches: Caches,
        clock: Clock,
        execute: ChangelogExecutor = emit_in_threads,
        runs: Mapping[str, pa.Table] | None = None,
    ) -> None:
        options = TableOptions(info.options)
        self._metastore = metastore
        self._info = info
        self._new = files
        self._clock = clock
        copies = caches.find_copies(info.table_uuid, options)
        self._changelogs = BucketChangelogs(store, info.schema, options, attempt_id, copies, runs)
        self._execute = execute
        self._emitted: dict[Bucket, EmittedBucket] = {}
        self._looks = 0
        self._is_emitted = False
        # How far the database's clock is ahead of this process's clock, if that has mattered.
        self._ahead_ms = 0
        self.base_snapshot_id = 0
        """The snapshot of the old rows; 0: there was none."""
        self.base_snapshot_uuid = ""
        """Its uuid; empty: there was none."""

    @property
    def data_files(self) -> tuple[DataFile, ...]:
        """The commit's data files, with the rows that they supersede."""
        return tuple(
            replace(file, deletion_vector_path=self._emitted[file.partition, file.bucket].deletion_vector_path)
            for file in self._new
        )

    @property
    def paths(self) -> list[str]:
        """The paths of all files written."""
        return [path for emitted in self._emitted.values() for path in emitted.paths]

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The changelog files, by bucket."""
        return tuple(file for emitted in self._emitted.values() for file in emitted.files)

    @property
    def window(self) -> TimeWindow:
        """The time in which the commit must happen for the changelog to be right."""
        return functools.reduce(TimeWindow.meet, (emitted.window for emitted in self._emitted.values()), ANY_TIME)

    @property
    def buckets(self) -> tuple[BucketRef, ...]:
        """The buckets that must be unchanged since the base."""
        return tuple(BucketRef(*bucket) for bucket in self._emitted)

    def take(self, base_snapshot_id: int, base_snapshot_uuid: str, emitted: Iterable[EmittedBucket]) -> None:
        """Takes a finished changelog of all buckets against one base: the next `look_up` has nothing to do."""
        self._emitted = {each.bucket: each for each in emitted}
        self.base_snapshot_id, self.base_snapshot_uuid = base_snapshot_id, base_snapshot_uuid
        self._is_emitted = True

    def look_up(self) -> None:
        """Makes the changelog against the newest snapshot; keeps earlier results that still hold.

        Raises:
            DataCorrupted: A data file is damaged or missing; named.
            LakelogError: The metastore or the store failed; `files` are still all that was written.
        """
        if self._is_emitted:
            self._is_emitted = False
            return
        plan = self._metastore.plan(to_plan_request(self._info.table_uuid, None, to_added(self._new, 0, 0)))
        base, time_ms = 0, self._clock.now_ms() + self._ahead_ms
        if plan.snapshot is not None:
            # About the time that the gate will use: a commit is never older than the one before it. If a greater
            # precision matters, the commit keeps to the window, or is refused.
            base, time_ms = plan.snapshot.snapshot_id, max(time_ms, plan.snapshot.committed_at_ms)
        added, live = to_added(self._new, base, time_ms), to_live_files(plan.files)
        lookups = to_lookups(f"lookup-{self._looks:03d}", added, live)
        changed = [each for each in lookups if not self._still_holds(each, time_ms)]
        self._looks += 1
        for each in changed:
            old = self._emitted.pop(each.bucket, None)
            self._changelogs.delete(old.paths if old is not None else ())
        failure: BaseException | None = None
        for outcome in self._execute(self._changelogs, changed):
            if isinstance(outcome, EmittedBucket):
                self._emitted[outcome.bucket] = outcome
            else:
                failure = failure or outcome
        self._changelogs.evict()
        if failure is not None:
            raise failure
        self.base_snapshot_id = base
        self.base_snapshot_uuid = "" if plan.snapshot is None else plan.snapshot.snapshot_uuid

    def learn_time(self, now_ms: int) -> None:
        """Notes the database's time, which decides how long deletes beat late rows."""
        self._ahead_ms = now_ms - self._clock.now_ms()

    def delete(self) -> None:
        """Deletes all that was written; does not raise for files that stay, which the orphan collector finds."""
        self._changelogs.delete(self.paths)

    def _still_holds(self, lookup: BucketLookup, time_ms: int) -> bool:
        emitted = self._emitted.get(lookup.bucket)
        return emitted is not None and emitted.base == lookup.base and emitted.window.holds(time_ms)
