"""Merges files of one commit before they enter its snapshot.

Small files are merged if the table has `precommit-compact` (semantics 6.4). Changelog files of the producer `input` are
merged if their keys overlap, so that a bucket reads by key, then arrival (semantics 3.4).

Objectives, which conflict: the commit means the same as without merging; memory is bounded whatever was written; a
crash leaves only files of an open attempt.

1. The merged runs of a bucket are what a writer with a larger buffer would have written: all of them belong to one
   commit, so neither its time nor older runs matter, and all deletes stay, since they must hide rows of older runs.
2. Changelog files keep all records, ordered by key, then arrival.
3. New files are written first, then those that they replace are deleted. Both belong to the same uncommitted attempt,
   so the commit names all that is left of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from lakelog.errors import LakelogError
from lakelog.format.compaction.commit_files import (
    MergeGroup,
    plan_append_files,
    plan_changelog_files,
    plan_keyed_files,
    replace_files,
    sort_by_key,
)
from lakelog.format.compaction.settings import CompactionSettings
from lakelog.format.keys.ordering import comparable_keys
from lakelog.format.merge.runs import MergeRun, merge_runs
from lakelog.format.merge.sections import KeyRange, find_depth
from lakelog.format.tables.files import DataFile
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.format.types.schema import TableSchema
from lakelog.options.declared.tables import CHANGELOG_PRODUCER, PRECOMMIT_COMPACT
from lakelog.options.values import TableOptions
from lakelog.storage.lookup.bucket_changelog import to_added
from lakelog.storage.merging.aligned_runs import AlignedRows, RunPart, read_aligned
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.own_columns import KIND_FIELD
from lakelog.storage.parquet.writer import plan_file_schema
from lakelog.storage.rewrite.append import FileRewrite, rewrite_files
from lakelog.storage.rewrite.bucket_writer import start_bucket_writer

_MEMORY_BYTES: Final = 48 << 20
"""Size of rows that one merge of runs holds as read; its results take about twice as much."""

_MAX_DEPTH: Final = 500
"""Runs that are read side by side: memory holds some thousand rows of each, however wide. More merge in rounds."""

_THREADS: Final = 2


@dataclass(frozen=True)
class MergeTask:
    """Files of one commit that one worker merges. Picklable.

    Args:
        name: Prefix of the names of the new files; no others of the attempt have it.
        files: The files, in the commit's order.
        is_changelog: Whether they are changelog files, whose records all stay.
    """

    name: str
    files: tuple[DataFile, ...]
    is_changelog: bool = False

    @property
    def size_bytes(self) -> int:
        """The total size of the files."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True)
class CommitMerger:
    """Merges files of an attempt at one table. Picklable; threads may share it; blocks on storage."""

    schema: TableSchema
    options: TableOptions
    attempt_id: str

    def merge(self, store: ObjectStore, work: MergeTask) -> tuple[DataFile, ...]:
        """Writes the merged content of some files, which stay. A failure leaves no new file.

        Returns:
            The files in the order of their rows.

        Raises:
            DataCorrupted: A data file is damaged or missing; named.
            LakelogError: The store failed.
        """
        if not self.schema.primary_key:
            rewrite = FileRewrite(work.name, tuple(to_added(work.files, 0, 0)))
            return rewrite_files(store, self.schema, self.options, self.attempt_id, rewrite)
        runs = work.files
        between: list[DataFile] = []
        try:
            # Adjacent runs first, so that later runs stay later; each round leaves a fraction of the runs.
            for turn in range(len(runs)):
                if not self._are_too_many(runs):
                    break
                parts = [runs[start : start + _MAX_DEPTH] for start in range(0, len(runs), _MAX_DEPTH)]
                runs = ()
                for number, part in enumerate(parts):
                    made = self._merge_runs(store, replace(work, name=f"{work.name}-{turn}-{number}", files=part))
                    between += made
                    runs += made
            return self._merge_runs(store, replace(work, files=runs))
        finally:
            _delete(store, between)

    def merge_all(self, store: ObjectStore, works: Iterable[MergeTask]) -> tuple[tuple[DataFile, ...], ...]:
        """Merges several groups in order; a failure leaves no new file of any of them. Raises as `merge`."""
        made: list[tuple[DataFile, ...]] = []
        try:
            for work in works:
                files = self.merge(store, work)
                made.append(files)
        except BaseException:
            _delete(store, (file for files in made for file in files))
            raise
        return tuple(made)

    def _are_too_many(self, runs: Sequence[DataFile]) -> bool:
        if len(runs) <= _MAX_DEPTH or sum(file.size_bytes for file in runs) <= _MEMORY_BYTES // 4:
            return False
        return find_depth([KeyRange(file.min_key, file.max_key) for file in runs]) > _MAX_DEPTH

    def _merge_runs(self, store: ObjectStore, work: MergeTask) -> tuple[DataFile, ...]:
        data_files = DataFiles(store)
        inputs = to_added(work.files, 0, 0)
        has_kinds = work.is_changelog or _have_kinds(data_files, inputs)
        prefix = f"data/{self.attempt_id}/{work.name}"
        writer = start_bucket_writer(store, self.schema, self.options, prefix, work.files[0], with_row_kind=has_kinds)
        fields = [*plan_file_schema(self.schema, with_row_kind=False), *([KIND_FIELD] if has_kinds else [])]
        parts = [RunPart(file, fields) for file in inputs]
        key = self.schema.trimmed_key
        try:
            steps = read_aligned(data_files, parts, key, held_bytes=_MEMORY_BYTES, keys_repeat=work.is_changelog)
            for step in steps:
                writer.write(self._merge_step(step, work.is_changelog))
            return writer.finish()
        except BaseException:
            writer.abort()
            raise

    def _merge_step(self, step: Sequence[AlignedRows], is_changelog: bool) -> pa.Table:
        tables = [each.rows for each in step if each.rows.num_rows]
        policy = to_merge_policy(self.schema, self.options)
        rows = pa.concat_tables(tables)
        if is_changelog:
            kept = np.argsort(comparable_keys([rows.column(name) for name in policy.key]), kind="stable")
        else:
            decisive = list(dict.fromkeys([*policy.key, *policy.sequence]))
            kept = merge_runs(
                [MergeRun(table.select(decisive)) for table in tables],
                policy.key,
                policy.sequence,
                sequence_descending=policy.sequence_descending,
                keep_first=policy.keep_first,
            ).rows
        if len(tables) > 1 or len(kept) < rows.num_rows:
            rows = rows.take(pa.array(kept))
        if ROW_KIND_COLUMN in rows.schema.names:
            kinds = pa.chunked_array([rows.column(ROW_KIND_COLUMN).combine_chunks().fill_null(0)])
            rows = rows.set_column(rows.num_columns - 1, KIND_FIELD, kinds)
        return rows


MergeFiles: TypeAlias = Callable[[CommitMerger, ObjectStore, Sequence[MergeTask]], Sequence[Sequence[DataFile]]]
"""Merges in any way, and returns each outcome in order; an error that it raises leaves no new file."""


def merge_in_threads(
    merger: CommitMerger, store: ObjectStore, works: Sequence[MergeTask]
) -> Sequence[Sequence[DataFile]]:
    """Merges in threads of this process; all started merges end, even if some fail."""
    if len(works) < 2:
        return merger.merge_all(store, works)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lakelog-merge") as pool:
        futures = [pool.submit(merger.merge, store, work) for work in works]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            done = (each.result() for each in futures if not each.cancelled() and each.exception() is None)
            _delete(store, (file for files in done for file in files))
            raise


def merge_commit_files(
    merger: CommitMerger,
    store: ObjectStore,
    files: Sequence[DataFile],
    inputs: Sequence[DataFile],
    *,
    name_prefix: str = "",
    merge: MergeFiles = merge_in_threads,
) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
    """Merges those files of the commit that need it; replaced files are deleted. Blocks.

    It runs before anything that depends on the places of rows, such as positions of superseded rows. A second call
    finds nothing to do.

    Args:
        merger: The merger of their attempt.
        store: Where they are.
        files: The data files, in the commit's order.
        inputs: The files with records as they arrived, in the commit's order.
        name_prefix: Prefix of the names of the new files; other merges for the same attempt have other ones.
        merge: Does the work.

    Returns:
        The same, merged; changelog files of a bucket in the order of their keys.

    Raises:
        DataCorrupted: A data file is damaged or missing; named. All given files still exist.
        LakelogError: The store failed. All given files still exist.
    """
    options = merger.options
    has_key, is_changelog = bool(merger.schema.primary_key), options.get(CHANGELOG_PRODUCER) == "input"
    settings = CompactionSettings(options.target_file_size_bytes(has_key))
    small, target = settings.small_file_bytes, settings.target_file_size_bytes
    if not options.get(PRECOMMIT_COMPACT):
        small = 0
    if has_key:
        groups = plan_keyed_files(files, small)
    else:
        groups = plan_append_files(files, small, target, has_buckets=options.bucket_count(False) > 0)
    input_groups = (plan_changelog_files if is_changelog else plan_keyed_files)(inputs, small)
    works = [
        *_to_tasks(f"{name_prefix}merged", files, groups),
        *_to_tasks(f"{name_prefix}merged-changelog", inputs, input_groups, is_changelog=True),
    ]
    made = merge(merger, store, works) if works else ()
    _delete(store, (file for work in works for file in work.files))
    count = len(groups)
    left = replace_files(inputs, input_groups, made[count:])
    return replace_files(files, groups, made[:count]), sort_by_key(left) if is_changelog else left


def _to_tasks(
    name: str, files: Sequence[DataFile], groups: Sequence[MergeGroup], *, is_changelog: bool = False
) -> Iterator[MergeTask]:
    for number, group in enumerate(groups):
        yield MergeTask(f"{name}-{number:05d}", tuple(files[place] for place in group.places), is_changelog)


def _have_kinds(data_files: DataFiles, files: Iterable[LiveFile]) -> bool:
    """Whether a row of some files may have a kind other than +I: only then files have the column."""
    for file in files:
        if file.delete_count:
            return True
        with data_files.open(file) as reader:
            if reader.map_columns([KIND_FIELD]).sources[0] is not None:
                return True
    return False


def _delete(store: ObjectStore, files: Iterable[DataFile]) -> None:
    paths = [file.path for file in files]
    if paths:
        # Files that remain belong to an attempt: the orphan collector finds them.
        with contextlib.suppress(LakelogError):
            store.delete_many(paths)
