"""The changelog of a commit for one bucket: old rows are looked up, the difference is written (semantics 3.5).

A lookup of old rows also finds their places: the positions of the rows that the commit supersedes are written beside
the changes, so readers of the table need not find them again.

Everything here can be pickled or is made where it is needed, so the SDK does it in threads, and Spark in its tasks. The
data files are read back, a large bucket by key ranges; memory does not depend on their size.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from lakelog.errors import CommitConflict, LakelogError
from lakelog.format.commit.request import ANY_TIME, TimeWindow
from lakelog.format.merge.runs import MergeRun
from lakelog.format.tables.files import DataFile
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.format.types.schema import TableSchema
from lakelog.options.declared.tables import FILE_COMPRESSION
from lakelog.options.values import TableOptions
from lakelog.storage.lookup.bucket_changes import (
    HELD_BYTES,
    Bucket,
    BucketChanges,
    RowIndices,
    group_by_bucket,
    to_run,
)
from lakelog.storage.lookup.changelog_rules import to_changelog_rules
from lakelog.storage.lookup.copy_cache import CopyCache
from lakelog.storage.lookup.key_lookup import FoundTooMuchError
from lakelog.storage.merging.aligned_runs import Room
from lakelog.storage.merging.deletion_vector_file import write_deletion_vectors
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.file_builder import FileBuilder
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.writer import FileEncoding, plan_encoding, plan_file_schema

_EMITTED_ROWS: Final = 1 << 18
"""Rows of a bucket that are handled at once: they, their old rows and the changes are in memory, for each thread."""

_EMITTED_BYTES: Final = 32 << 20
"""The same limit for wide rows, in stored bytes."""

_THREADS: Final = 2


@dataclass(frozen=True)
class BucketLookup:
    """A bucket whose changelog is to be made. Picklable.

    Args:
        name: Prefix of its files' names; no other lookup of the attempt has it.
        bucket: The bucket.
        files: The files that the commit adds to it, as they will be after the commit.
        before: The live files of the bucket that can hold a key of these.
    """

    name: str
    bucket: Bucket
    files: tuple[LiveFile, ...]
    before: tuple[LiveFile, ...]

    @property
    def base(self) -> tuple[str, ...]:
        """The source of the old rows: the paths of `before`. The changelog is valid while it is unchanged."""
        return tuple(file.path for file in self.before)

    @property
    def row_count(self) -> int:
        """How many rows are looked up."""
        return sum(file.row_count for file in self.files)


@dataclass(frozen=True)
class EmittedBucket:
    """A bucket's changes. Picklable.

    Args:
        bucket: The bucket.
        base: The value of `BucketLookup.base` when its old rows were looked up.
        files: Its changelog files.
        deletion_vector_path: The file of positions, as `DataFile` has it: empty if nothing is superseded, None if
            unknown.
        window: The time in which the commit must happen for all this to be valid.
    """

    bucket: Bucket
    base: tuple[str, ...]
    files: tuple[DataFile, ...]
    deletion_vector_path: str | None
    window: TimeWindow = ANY_TIME

    @property
    def paths(self) -> list[str]:
        """The paths of all files written."""
        return [
            *(file.path for file in self.files),
            *([self.deletion_vector_path] if self.deletion_vector_path else []),
        ]


def pick_touched(files: Sequence[LiveFile], live: Iterable[LiveFile]) -> tuple[LiveFile, ...]:
    """Returns the live files of a bucket that can hold a key of some other files, in their order. Pure.

    The planned live files may be filtered by a wider range of keys, or not at all: the answer is the same.
    """
    firsts, lasts = [file.min_key for file in files], [file.max_key for file in files]
    first = None if None in firsts else min(each for each in firsts if each is not None)
    last = None if None in lasts else max(each for each in lasts if each is not None)
    return tuple(
        file
        for file in live
        if (first is None or file.max_key is None or file.max_key >= first)
        and (last is None or file.min_key is None or file.min_key <= last)
    )


def to_added(files: Iterable[DataFile], base_snapshot_id: int, time_ms: int) -> list[LiveFile]:
    """Returns the files of a commit as they will be after it. Pure.

    Args:
        files: The files in the commit's order.
        base_snapshot_id: The snapshot before it; 0: none.
        time_ms: The future commit time.
    """
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
            added_snapshot=base_snapshot_id + 1,
            order_snapshot=base_snapshot_id + 1,
            order_ordinal=ordinal,
            order_time_ms=time_ms,
        )
        for ordinal, file in enumerate(files)
    ]


def to_lookups(name: str, added: Iterable[LiveFile], live: Iterable[LiveFile]) -> list[BucketLookup]:
    """Returns the lookups for a commit, bucket by bucket. Pure.

    Args:
        name: Prefix of the names of all files.
        added: The commit's files.
        live: The live files at its base, in a plan's order; at least those that can hold the commit's keys.
    """
    before = group_by_bucket(live)
    return [
        BucketLookup(f"{name}-{number:05d}", bucket, tuple(files), pick_touched(files, before.get(bucket, ())))
        for number, (bucket, files) in enumerate(group_by_bucket(added).items())
    ]


class BucketChangelogs:
    """Makes the changelogs of buckets of one table. Threads may share it; blocks on storage.

    Args:
        store: Where the table's files are.
        schema: The table's schema.
        options: The table's options.
        attempt_id: The attempt that owns the changelog files.
        copies: Local copies of data files, for the old rows.
        runs: Rows of some of the commit's files by path, as a read of the file returns them; others are read back.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: TableSchema,
        options: TableOptions,
        attempt_id: str,
        copies: CopyCache,
        runs: Mapping[str, pa.Table] | None = None,
    ) -> None:
        self._store = store
        self._schema = schema
        self._attempt_id = attempt_id
        self._copies = copies
        self._runs = runs or {}
        self._has_offered = False
        self._key = schema.trimmed_key
        self._encoding: FileEncoding | None = None
        self._compression: str = options.get(FILE_COMPRESSION)
        self._target_bytes = options.target_file_size_bytes(True)
        policy = to_merge_policy(schema, options)
        rules = to_changelog_rules(schema, options)
        fields = list(plan_file_schema(schema, with_row_kind=False))
        self._changes = BucketChanges(store, schema, policy, fields, rules, copies)

    def write(self, lookup: BucketLookup) -> EmittedBucket:
        """Looks up a bucket's old rows and writes its changelog; a failure leaves no file.

        The caller calls `evict` after the last bucket.

        Raises:
            CommitConflict: Old rows were written with a newer schema (reason `SCHEMA_CHANGED`).
            DataCorrupted: A data file is damaged or missing; named.
            LakelogError: The store failed.
        """
        self._check_known(lookup.before)
        vectors = _FoundVectors(lookup)
        files = self._write(lookup, self._find_changes(lookup, vectors))
        if lookup.before:
            # The next lookup reads what was just written; a copy now saves reading it back then.
            for file in lookup.files:
                if file.path in self._runs:
                    self._copies.offer(file, self._schema, self._runs[file.path], self._key)
                    self._has_offered = True
        path = f"data/{self._attempt_id}/{lookup.name}-deletion-vectors-{lookup.bucket[1]}.parquet"
        by_path = vectors.by_path()
        if not by_path:
            return EmittedBucket(lookup.bucket, lookup.base, files, None if by_path is None else "", vectors.window)
        try:
            write_deletion_vectors(self._store, path, by_path)
        except BaseException:
            self.delete(file.path for file in files)
            raise
        return EmittedBucket(lookup.bucket, lookup.base, files, path, vectors.window)

    def write_all(self, lookups: Iterable[BucketLookup]) -> tuple[EmittedBucket, ...]:
        """Handles several buckets in order; a failure leaves no file of any of them. Raises as `write`."""
        emitted: list[EmittedBucket] = []
        try:
            for lookup in lookups:
                done = self.write(lookup)
                emitted.append(done)
        except BaseException:
            self.delete(path for each in emitted for path in each.paths)
            raise
        finally:
            self.evict()
        return tuple(emitted)

    def _check_known(self, files: Sequence[LiveFile]) -> None:
        """Raises CommitConflict if old rows may have values that the schema does not hold, which -U would then lack."""
        newer = next((file for file in files if file.schema_id > self._schema.schema_id), None)
        if newer is not None:
            raise CommitConflict(
                f"The changelog of these rows needs the rows that were there before, and '{newer.path}' has some that "
                f"were written with schema {newer.schema_id}: columns were changed since this write began with schema "
                f"{self._schema.schema_id}. Load the table again and write the data anew.",
                reason="SCHEMA_CHANGED",
                metadata={"schema_id": str(newer.schema_id), "retry": "never"},
            )

    def evict(self) -> None:
        """Evicts local copies down to their bounds if `write` has made some; does not raise for copies that stay."""
        if self._has_offered:
            self._has_offered = False
            with contextlib.suppress(OSError):
                self._copies.evict()

    def write_commits(
        self, name: str, bucket: Bucket, commits: Sequence[Sequence[LiveFile]], before: Sequence[LiveFile]
    ) -> list[tuple[DataFile, ...]]:
        """Writes the changelog of each of some successive commits to a bucket, with one lookup of old rows for all.

        Args:
            name: Prefix of the names of the files.
            bucket: The bucket.
            commits: The files that each commit added, in order; several commits must fit into memory.
            before: The live files of the bucket before the first commit.

        Raises:
            DataCorrupted: A data file is damaged or missing; named. No file remains.
            LakelogError: The store failed. No file remains.
        """
        touching = pick_touched([file for files in commits for file in files], before)
        lookups = [
            BucketLookup(f"{name}-{number:05d}", bucket, tuple(files), touching) for number, files in enumerate(commits)
        ]
        if len(lookups) == 1:
            return [self._write(lookups[0], self._find_changes(lookups[0], _FoundVectors(lookups[0])))]
        try:
            room = Room(HELD_BYTES)
            runs = [[self._changes.read(file, room) for file in files] for files in commits]
            changes = iter(self._changes.fold(touching, runs, HELD_BYTES))
        except FoundTooMuchError:
            # Commits are handled one after the other; for each, the earlier ones are among the files before it.
            changes = None
        done: list[tuple[DataFile, ...]] = []
        try:
            for number, lookup in enumerate(lookups):
                if changes is not None:
                    done.append(self._write(lookup, iter([next(changes)])))
                    continue
                earlier = [file for files in commits[:number] for file in files]
                alone = replace(lookup, before=(*touching, *pick_touched(lookup.files, earlier)))
                done.append(self._write(alone, self._find_changes(alone, _FoundVectors(alone))))
        except BaseException:
            self.delete(file.path for files in done for file in files)
            raise
        return done

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes files; does not raise for files that stay, which the orphan collector finds."""
        with contextlib.suppress(LakelogError):
            self._store.delete_many(list(paths))

    def _find_changes(self, lookup: BucketLookup, vectors: _FoundVectors) -> Iterator[pa.Table]:
        is_small = lookup.row_count <= _EMITTED_ROWS
        runs: list[MergeRun] | None = None
        if is_small and sum(file.size_bytes for file in lookup.files) <= _EMITTED_BYTES:
            room = Room(HELD_BYTES)
            # Files that unpack to more than expected are read by key ranges too.
            with contextlib.suppress(FoundTooMuchError):
                runs = [self._read(file, room) for file in lookup.files]
        if runs is not None:
            yield from self._fold(lookup, vectors, runs, [0] * len(runs))
            return
        for step in self._changes.read_by_key_ranges(lookup.files):
            runs = [to_run(each.rows, file) for each, file in zip(step, lookup.files, strict=True)]
            yield from self._fold(lookup, vectors, runs, [each.start for each in step])

    def _fold(
        self, lookup: BucketLookup, vectors: _FoundVectors, runs: Sequence[MergeRun], starts: Sequence[int]
    ) -> Iterator[pa.Table]:
        for part in self._changes.fold_one(lookup.before, runs, starts):
            vectors.add(part.deleted, part.window)
            yield part.changes

    def _read(self, file: LiveFile, room: Room) -> MergeRun:
        rows = self._runs.get(file.path)
        return self._changes.read(file, room) if rows is None else to_run(rows, file)

    def _write(self, lookup: BucketLookup, pieces: Iterator[pa.Table]) -> tuple[DataFile, ...]:
        """Writes change rows, which rise by key, in as many files as the target size requires."""
        done: list[DataFile] = []
        builder: FileBuilder | None = None
        try:
            for rows in pieces:
                kinds = rows.column(ROW_KIND_COLUMN).to_numpy()
                left = rows.drop_columns([ROW_KIND_COLUMN])
                while left.num_rows:
                    builder = builder or self._start(f"{lookup.name}-changelog-{len(done):03d}", lookup.bucket, left)
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
            self.delete(file.path for file in done)
            raise
        return tuple(done)

    def _plan_encoding(self, sample: pa.Table) -> FileEncoding:
        # Rows of one commit are alike; threads that race here find the same result.
        if self._encoding is None:
            self._encoding = plan_encoding(sample, self._compression)
        return self._encoding

    def _start(self, name: str, bucket: Bucket, sample: pa.Table) -> FileBuilder:
        return FileBuilder(
            self._store,
            f"data/{self._attempt_id}/{name}-{bucket[1]}.parquet",
            self._schema,
            self._plan_encoding(sample),
            partition=bucket[0],
            bucket=bucket[1],
            with_row_kind=True,
            target_size_bytes=self._target_bytes,
        )


class _FoundVectors:
    """Collects results by key range: positions, 8 bytes per superseded row, and the time window of the commit."""

    def __init__(self, lookup: BucketLookup) -> None:
        self._paths = [file.path for file in (*lookup.before, *lookup.files)]
        self._found: list[list[RowIndices]] = [[] for _ in self._paths]
        self._are_known = True
        self.window = ANY_TIME

    def add(self, indices: Sequence[RowIndices] | None, window: TimeWindow) -> None:
        self.window = self.window.meet(window)
        if indices is None:
            self._are_known = False
            return
        for found, more in zip(self._found, indices, strict=True):
            if len(more):
                found.append(more)

    def by_path(self) -> dict[str, RowIndices] | None:
        if not self._are_known:
            return None
        # Key ranges rise, and so do the positions in files that are sorted by them.
        return {path: np.concatenate(found) for path, found in zip(self._paths, self._found, strict=True) if found}


Outcome: TypeAlias = EmittedBucket | BaseException
ChangelogExecutor: TypeAlias = Callable[[BucketChangelogs, Sequence[BucketLookup]], Sequence[Outcome]]
"""Makes changelogs in any way, and returns each outcome in order; an error that it raises is fatal to all."""


def emit_in_threads(changelogs: BucketChangelogs, lookups: Sequence[BucketLookup]) -> Sequence[Outcome]:
    """Makes changelogs in threads of this process, all of them even if some fail."""

    def attempt(lookup: BucketLookup) -> Outcome:
        try:
            return changelogs.write(lookup)
        except BaseException as error:
            return error

    if len(lookups) < 2:
        # Starting threads would take longer than a small bucket.
        return [attempt(one) for one in lookups]
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lakelog-lookup") as pool:
        return list(pool.map(attempt, lookups))
