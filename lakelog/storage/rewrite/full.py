"""A full compaction of a bucket that also emits what changed since the one before (semantics 3.6).

The state emitted so far is the merged rows of some files: those that the compaction before left. Most of them still
exist and are rewritten now; an overwrite may have removed others since. So only keys of files that were committed or
removed since can have changed, and both sides of the difference are read while the runs are merged.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.format.keys.ordering import comparable_keys
from lakelog.format.merge.changelog import ChangelogRules, find_difference
from lakelog.format.merge.runs import MergeRun, find_deleted_rows
from lakelog.format.merge.sections import KeyRange, find_depth
from lakelog.format.tables.files import DataFile
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, is_retract
from lakelog.format.types.schema import TableSchema
from lakelog.options.declared.tables import ROW_DEDUPLICATE, ROW_DEDUPLICATE_IGNORE_FIELDS
from lakelog.options.values import TableOptions
from lakelog.storage.merging.aligned_runs import AlignedRows, read_aligned
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.own_columns import KIND_FIELD
from lakelog.storage.rewrite.bucket_writer import start_bucket_writer
from lakelog.storage.rewrite.runs import (
    DEFAULT_REWRITE_MEMORY_BYTES,
    RunRewrite,
    RunRewriter,
    to_run_parts,
)

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class FullRewrite:
    """The output of a full compaction of a bucket. Picklable.

    Args:
        files: The new top run.
        changelog_files: What changed since the full compaction before.
    """

    files: tuple[DataFile, ...]
    changelog_files: tuple[DataFile, ...]


@dataclass(frozen=True)
class EmissionRewrite:
    """The work of a full compaction on the files in a range of a bucket's keys. Picklable.

    Args:
        name: Prefix of the names of the new files; no other one of the attempt has it.
        rewrite: What is rewritten; None: nothing.
        moved: The only live file of the range, which stays unchanged; None: there is no such file.
        baseline: The files of the changelog baseline, in a plan's order, live or not.
    """

    name: str
    rewrite: RunRewrite | None
    moved: LiveFile | None
    baseline: tuple[LiveFile, ...]

    @property
    def inputs(self) -> tuple[LiveFile, ...]:
        """The replaced files."""
        return () if self.rewrite is None else self.rewrite.inputs


def rewrite_and_emit(
    store: ObjectStore, schema: TableSchema, options: TableOptions, attempt_id: str, work: EmissionRewrite
) -> FullRewrite:
    """Does a part of a full compaction, and writes the changes since the last one. Blocks; see `rewrite_fully`."""
    inputs = {file.file_id for file in work.inputs}
    if work.rewrite is not None:
        before = {file.path for file in work.baseline if file.file_id in inputs}
        gone = [file for file in work.baseline if file.file_id not in inputs]
        return rewrite_fully(store, schema, options, attempt_id, work.rewrite, before, gone=gone)
    if work.moved is not None and [file.file_id for file in work.baseline] == [work.moved.file_id]:
        return FullRewrite((), ())
    return FullRewrite((), emit_unwritten(store, schema, options, attempt_id, work.name, work.moved, work.baseline))


def rewrite_fully(
    store: ObjectStore,
    schema: TableSchema,
    options: TableOptions,
    attempt_id: str,
    rewrite: RunRewrite,
    before: Collection[str],
    *,
    gone: Sequence[LiveFile] = (),
    memory_bytes: int = DEFAULT_REWRITE_MEMORY_BYTES,
) -> FullRewrite:
    """Writes the merged rows of all runs of a bucket, and what changed since the full compaction before. Blocks.

    A key that was written since and has a row before and after is emitted as an update, even if nothing changed, unless
    `changelog-producer.row-deduplicate` leaves it out.

    Args:
        store: Where the table's files are.
        schema: The table's schema.
        options: The table's options.
        attempt_id: The attempt that owns the files.
        rewrite: What to do; its inputs are all files of the bucket, or of some range of its keys.
        before: Paths of the inputs that are in the changelog baseline; none: there was no full compaction yet.
        gone: Other files of the changelog baseline, in a plan's order; they are no longer live.
        memory_bytes: As of `rewrite_runs`.

    Raises:
        As `rewrite_runs`; a failure leaves no file.
    """
    files = [*rewrite.inputs, *gone]
    in_baseline = [place >= len(rewrite.inputs) or file.path in before for place, file in enumerate(files)]
    emitter = _Emitter(schema, options, files, in_baseline, len(rewrite.inputs))
    rewriter = RunRewriter(store, schema, options, rewrite, memory_bytes, beside=gone)
    writer = rewriter.start_writer(attempt_id)
    changelog = start_bucket_writer(store, schema, options, _changelog_prefix(attempt_id, rewrite.name), files[0])
    try:
        for step, rows in rewriter.read_steps():
            changelog.write(emitter.emit(step, rows))
            if rows.num_rows:
                writer.write(rows)
        return FullRewrite(writer.finish(), changelog.finish())
    except BaseException:
        changelog.abort()
        writer.abort()
        raise


def emit_unwritten(
    store: ObjectStore,
    schema: TableSchema,
    options: TableOptions,
    attempt_id: str,
    name: str,
    moved: LiveFile | None,
    gone: Sequence[LiveFile],
    *,
    memory_bytes: int = DEFAULT_REWRITE_MEMORY_BYTES,
) -> tuple[DataFile, ...]:
    """Writes what a full compaction emits for a range of keys in which it writes no data. Blocks.

    Args:
        store: Where the table's files are.
        schema: The table's schema.
        options: The table's options.
        attempt_id: The attempt that owns the files.
        name: Prefix of the names of the files, as that of a rewrite.
        moved: The only live file there, which was not in the baseline and stays unchanged; None: there is none.
        gone: Files of the baseline, in a plan's order; they are no longer live. At least one, or a moved one.
        memory_bytes: As of `rewrite_runs`.

    Raises:
        As `rewrite_runs`; a failure leaves no file.
    """
    files = [*([] if moved is None else [moved]), *gone]
    inputs = len(files) - len(gone)
    emitter = _Emitter(schema, options, files, [place >= inputs for place in range(len(files))], inputs)
    policy = to_merge_policy(schema, options)
    parts = to_run_parts(schema, policy.sequence, files)
    changelog = start_bucket_writer(store, schema, options, _changelog_prefix(attempt_id, name), files[0])
    try:
        for step in read_aligned(DataFiles(store), parts, policy.key, held_bytes=memory_bytes):
            rows = step[0].rows if inputs else step[0].rows.slice(0, 0)
            changelog.write(emitter.emit(step, rows))
        return changelog.finish()
    except BaseException:
        changelog.abort()
        raise


def _changelog_prefix(attempt_id: str, name: str) -> str:
    return f"data/{attempt_id}/{name}-changelog"


class _Emitter:
    """Emits the changes of each step of a compaction.

    Args:
        schema: The table's schema.
        options: The table's options.
        files: The files whose rows come side by side; those of the baseline are in the order of the bucket.
        in_baseline: Which of them are in the baseline.
        input_count: How many of them are compacted: the first ones.
    """

    def __init__(
        self,
        schema: TableSchema,
        options: TableOptions,
        files: Sequence[LiveFile],
        in_baseline: Sequence[bool],
        input_count: int,
    ) -> None:
        ignored = options.get(ROW_DEDUPLICATE_IGNORE_FIELDS)
        self._policy = to_merge_policy(schema, options)
        self._rules = ChangelogRules(
            schema.trimmed_key,
            drop_equal=options.get(ROW_DEDUPLICATE),
            compared=tuple(name for name in schema.arrow.names if name not in ignored),
        )
        self._names = schema.arrow.names
        # In the order of the bucket, as in a plan; inputs and removed files each in their own order.
        baseline = [place for place, is_reported in enumerate(in_baseline) if is_reported]
        self._reported = sorted(baseline, key=lambda place: _place(files[place]))
        self._times_ms = [file.order_time_ms for file in files]
        ranges = [KeyRange(files[place].min_key, files[place].max_key) for place in baseline]
        self._are_apart = not ranges or find_depth(ranges) == 1
        # Only keys of these files can have changed: inputs outside the baseline, and removed files of the baseline.
        self._touched = [
            place for place, is_reported in enumerate(in_baseline) if is_reported is (place >= input_count)
        ]

    def emit(self, step: Sequence[AlignedRows], rows: pa.Table) -> pa.Table:
        """The changes of a step: the table's columns and `_row_kind`, by rising key, -U right before its +U."""
        nothing = rows.select(self._names).slice(0, 0)
        key = list(self._rules.key)
        touched = pa.concat_tables([nothing.select(key), *(step[place].rows.select(key) for place in self._touched)])
        if touched.num_rows == 0:
            return nothing.append_column(_KIND_FIELD, pa.array([], pa.int8()))
        old = pa.concat_tables([nothing, *self._merge_baseline(step)])
        new = _shown(rows, self._names)
        was_touched, is_touched = _find(touched, [old, new], key)
        return find_difference(old.filter(pa.array(was_touched)), new.filter(pa.array(is_touched)), self._rules)

    def _merge_baseline(self, step: Sequence[AlignedRows]) -> list[pa.Table]:
        found = [place for place in self._reported if step[place].rows.num_rows]
        if self._are_apart or len(found) < 2:
            return [_shown(step[place].rows, self._names) for place in found]
        policy = self._policy
        runs = [MergeRun(step[place].rows, self._times_ms[place]) for place in found]
        deleted = find_deleted_rows(
            runs,
            policy.key,
            policy.sequence,
            sequence_descending=policy.sequence_descending,
            delete_retention_ms=policy.delete_retention_ms,
            keep_first=policy.keep_first,
        )
        return [
            run.table.select(self._names).take(pa.array(np.delete(np.arange(run.table.num_rows), gone)))
            for run, gone in zip(runs, deleted, strict=True)
        ]


def _place(file: LiveFile) -> tuple[int, int, int]:
    return file.order_snapshot, file.order_ordinal, file.file_id


def _shown(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows that a read shows, in a run with one row per key."""
    shown = rows.select(names)
    if ROW_KIND_COLUMN not in rows.schema.names or rows.num_rows == 0:
        return shown
    return shown.filter(pa.array(~is_retract(rows.column(ROW_KIND_COLUMN))))


def _find(touched: pa.Table, tables: Sequence[pa.Table], key: Sequence[str]) -> list[Mask]:
    """Which rows of some tables have one of the given keys."""
    together = pa.concat_tables([touched, *(table.select(list(key)) for table in tables)])
    codes = comparable_keys([together.column(name) for name in key])
    wanted = codes[: touched.num_rows]
    ends = np.cumsum([table.num_rows for table in tables])
    return [np.isin(own, wanted) for own in np.split(codes[touched.num_rows :], ends[:-1])]


_KIND_FIELD: Final = KIND_FIELD.with_nullable(False)
