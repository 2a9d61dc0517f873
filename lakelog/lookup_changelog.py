"""The changelog that a writer makes before its commit: old rows looked up, the difference written (SEMANTICS.md 3.5).

Objectives, which conflict: a changelog never wrong; other writers never blocked; little done twice. So:

1. Old rows are those of the newest snapshot, the base. The commit names it with the buckets it touched, and the gate
   refuses it when one of them got other data since: what was looked up is then no longer what was there.
2. Who is refused looks up again, only in the buckets whose files have changed, and commits on the new base.
3. The data files are read back, bucket by bucket, a large one by key ranges; memory does not depend on their size.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from lakelog.client.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import LakelogError
from lakelog.format.changelog import ChangelogRules
from lakelog.format.commit import BucketRef
from lakelog.format.files import DataFile
from lakelog.format.rowkind import ROW_KIND_COLUMN
from lakelog.format.table import TableInfo
from lakelog.options.table_options import FILE_COMPRESSION, ROW_DEDUPLICATE, ROW_DEDUPLICATE_IGNORE_FIELDS
from lakelog.options.values import TableOptions
from lakelog.storage.bucket_changes import Bucket, BucketChanges, group_by_bucket, to_plan_request, to_run
from lakelog.storage.caches import Caches
from lakelog.storage.file_builder import FileBuilder
from lakelog.storage.live_file import LiveFile, to_live_files
from lakelog.storage.parquet_writer import plan_encoding, plan_file_schema
from lakelog.storage.store import ObjectStore
from lakelog.storage.superseded import to_merge_policy

_TOLD_ROWS: Final = 1 << 18
"""Rows of a bucket that are told at once: they, their old rows and the changes are in memory, for each thread."""

_TOLD_BYTES: Final = 32 << 20
"""The same for wide rows, as stored."""

_THREADS: Final = 2

T = TypeVar("T")


@dataclass(frozen=True)
class _Told:
    """A bucket's changes, and the files that were live in it when its old rows were looked up."""

    base: tuple[str, ...]
    files: tuple[DataFile, ...]


class LookupChangelog:
    """The changelog of what one commit writes to one table. For one thread at a time; blocks on storage.

    Args:
        metastore: Who plans the base.
        store: Where the table's files are.
        info: The table.
        attempt_id: Whose files the changelog's are.
        files: The data files of the commit, in its order.
        caches: For the old rows.
        clock: For how long deletes go on beating late rows.
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
    ) -> None:
        options = TableOptions(info.options)
        self._metastore = metastore
        self._store = store
        self._info = info
        self._attempt_id = attempt_id
        self._new = files
        self._clock = clock
        self._compression: str = options.get(FILE_COMPRESSION)
        self._target_bytes = options.target_file_size_bytes(True)
        policy = to_merge_policy(info.schema, options)
        ignored = options.get(ROW_DEDUPLICATE_IGNORE_FIELDS)
        rules = ChangelogRules(
            policy.key,
            policy.sequence,
            policy.sequence_descending,
            policy.delete_retention_ms,
            drop_equal=options.get(ROW_DEDUPLICATE),
            compared=tuple(name for name in info.schema.arrow.names if name not in ignored),
        )
        fields = list(plan_file_schema(info.schema, with_row_kind=False))
        copies = caches.find_copies(info.table_uuid, options)
        self._changes = BucketChanges(store, info.schema, policy, fields, rules, copies)
        self._told: dict[Bucket, _Told] = {}
        self._looks = 0
        self.base_snapshot_id = 0
        """The snapshot that the old rows are of; 0: there was none."""

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The changelog files, by bucket."""
        return tuple(file for told in self._told.values() for file in told.files)

    @property
    def buckets(self) -> tuple[BucketRef, ...]:
        """The buckets that must be as they were at the base."""
        return tuple(BucketRef(*bucket) for bucket in self._told)

    def look_up(self) -> None:
        """Makes the changelog against the newest snapshot; what was found before and still holds is kept.

        Raises:
            DataCorrupted: A data file is damaged or missing; named.
            LakelogError: The metastore or the store failed; `files` are still all that was written.
        """
        plan = self._metastore.plan(to_plan_request(self._info.table_uuid, None, self._to_live(0, 0)))
        base, time_ms = 0, self._clock.now_ms()
        if plan.snapshot is not None:
            # As the gate will have it: a commit is never older than the one before it. SUBTLE: its own time is not
            # known yet, so that a late row decides otherwise than here where the `sequence.delete-retention` of a
            # delete ends between this moment and the commit.
            base, time_ms = plan.snapshot.snapshot_id, max(time_ms, plan.snapshot.committed_at_ms)
        before = group_by_bucket(to_live_files(plan.files))
        changed: list[tuple[Bucket, Callable[[], tuple[DataFile, ...]]]] = []
        for number, (bucket, files) in enumerate(group_by_bucket(self._to_live(base, time_ms)).items()):
            told, old = self._told.get(bucket), before.get(bucket, [])
            if told is None or told.base != _paths(old):
                name = f"changelog-{self._looks:03d}-{number:05d}"
                changed.append((bucket, partial(self._tell, name, bucket, files, old)))
        self._looks += 1
        for bucket, _ in changed:
            self._delete(self._told.pop(bucket).files if bucket in self._told else ())
        failure: BaseException | None = None
        for (bucket, _), outcome in zip(changed, _do_all([tell for _, tell in changed]), strict=True):
            if isinstance(outcome, BaseException):
                failure = failure or outcome
            else:
                self._told[bucket] = _Told(_paths(before.get(bucket, [])), outcome)
        if failure is not None:
            raise failure
        self.base_snapshot_id = base

    def delete(self) -> None:
        """Deletes the changelog files; never raises for what cannot be deleted, which the collector finds."""
        self._delete(self.files)

    def _delete(self, files: Iterable[DataFile]) -> None:
        with contextlib.suppress(LakelogError):
            self._store.delete_many([file.path for file in files])

    def _to_live(self, base: int, time_ms: int) -> list[LiveFile]:
        """The files of the commit as they will be once it is done."""
        return [
            LiveFile(
                file_id=0,
                path=file.path,
                partition=file.partition,
                bucket=file.bucket,
                level=file.level,
                row_count=file.row_count,
                delete_count=file.delete_count,
                size_bytes=file.size_bytes,
                min_key=file.min_key,
                max_key=file.max_key,
                schema_id=file.schema_id,
                added_snapshot=base + 1,
                order_snapshot=base + 1,
                order_ordinal=ordinal,
                order_time_ms=time_ms,
            )
            for ordinal, file in enumerate(self._new)
        ]

    def _tell(
        self, name: str, bucket: Bucket, files: Sequence[LiveFile], before: Sequence[LiveFile]
    ) -> tuple[DataFile, ...]:
        return self._write(name, bucket, self._find_changes(files, before))

    def _find_changes(self, files: Sequence[LiveFile], before: Sequence[LiveFile]) -> Iterator[pa.Table]:
        is_small = sum(file.row_count for file in files) <= _TOLD_ROWS
        if is_small and sum(file.size_bytes for file in files) <= _TOLD_BYTES:
            yield self._changes.fold(before, [[self._changes.read(file) for file in files]])[0]
            return
        for tables in self._changes.read_by_key_ranges(files):
            runs = [to_run(rows, file) for rows, file in zip(tables, files, strict=True)]
            yield self._changes.fold(before, [runs])[0]

    def _write(self, name: str, bucket: Bucket, pieces: Iterator[pa.Table]) -> tuple[DataFile, ...]:
        """Writes change rows, which rise by key, in as many files as the target size asks for."""
        done: list[DataFile] = []
        builder: FileBuilder | None = None
        try:
            for rows in pieces:
                kinds = rows.column(ROW_KIND_COLUMN).to_numpy()
                left = rows.drop_columns([ROW_KIND_COLUMN])
                while left.num_rows:
                    builder = builder or self._start(f"{name}-{len(done):03d}", bucket, left)
                    taken = builder.write_until_full(left, np.asarray(kinds, np.int8))
                    left, kinds = left.slice(taken), kinds[taken:]
                    if builder.is_full:
                        done.append(builder.finish())
                        builder = None
            if builder is not None:
                done.append(builder.finish())
        except BaseException:
            if builder is not None:
                builder.abort()
            self._delete(done)
            raise
        return tuple(done)

    def _start(self, name: str, bucket: Bucket, sample: pa.Table) -> FileBuilder:
        return FileBuilder(
            self._store,
            f"data/{self._attempt_id}/{name}-{bucket[1]}.parquet",
            self._info.schema,
            plan_encoding(sample, self._compression),
            partition=bucket[0],
            bucket=bucket[1],
            with_row_kind=True,
            target_size_bytes=self._target_bytes,
        )


def _do_all(work: Sequence[Callable[[], T]]) -> list[T | BaseException]:
    """Does all of it, whatever fails, and tells what came of each."""

    def attempt(one: Callable[[], T]) -> T | BaseException:
        try:
            return one()
        except BaseException as error:
            return error

    if len(work) < 2:
        # Starting threads would take longer than a small bucket does.
        return [attempt(one) for one in work]
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lakelog-lookup") as pool:
        return list(pool.map(attempt, work))


def _paths(files: Sequence[LiveFile]) -> tuple[str, ...]:
    return tuple(file.path for file in files)
