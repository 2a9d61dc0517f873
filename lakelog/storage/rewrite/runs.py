"""Combines adjacent runs of a primary-key bucket into one sorted run: the work of a compaction.

Objectives, which conflict: no later read changes, whatever is committed meanwhile; memory is bounded for any bucket;
every row is decoded, merged and encoded once.

1. The runs are read side by side in the order of their keys, a row group of each at a time or less; the rows of a step
   are merged by their keys, picked in all columns at once, and passed to a thread that writes.
2. `lakelog.format.merge.rewrite` decides which of a key's rows are kept; if that depends on a record of the runs below,
   the record is looked up there, which is rare.
3. A delete is kept if a run below can hold its key. With sequence columns it is also kept for as long as it may beat a
   late row of a run above, or of one that is committed later.
4. With sequence columns rows keep their commit times if these matter for a delete among them or below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import InvalidArgument
from lakelog.format.keys.encoding import encode_key
from lakelog.format.merge.rewrite import RetainedRows, RewriteRules, find_contested, merge_for_rewrite, resolve
from lakelog.format.merge.runs import MergeRun, commit_times
from lakelog.format.merge.sections import KeyRange, do_meet
from lakelog.format.tables.files import DataFile
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind
from lakelog.format.types.schema import TableSchema
from lakelog.options.values import TableOptions
from lakelog.storage.lookup.key_lookup import KeyLookup
from lakelog.storage.merging.aligned_runs import AlignedRows, RunPart, read_aligned
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.own_columns import KIND_FIELD, REPLACES_FIELD, TIME_FIELD, pick_own_fields
from lakelog.storage.parquet.rolling_writer import RollingWriter
from lakelog.storage.parquet.writer import plan_file_schema
from lakelog.storage.rewrite.bucket_writer import start_bucket_writer

DEFAULT_REWRITE_MEMORY_BYTES: Final = 96 << 20
"""Size of rows in memory as read; merged rows, and rows that wait to be written, take about twice as much."""

RowIndices = npt.NDArray[np.int64]
Place = tuple[int, int]


@dataclass(frozen=True)
class RunRewrite:
    """Runs of a bucket that are combined into one. Picklable.

    Args:
        name: Prefix of the names of the new files; no other rewrite of the attempt has it.
        inputs: The files, in a plan's order. A file between two of them in the order of runs is among them too, or
            shares no key with those below it.
        rest: All other live files of the bucket at the base, in a plan's order; files with no key near may be missing.
        base_time_ms: The commit time of the base: a later commit never has an earlier time.
        level: The level of the new files, at least 1.
    """

    name: str
    inputs: tuple[LiveFile, ...]
    rest: tuple[LiveFile, ...]
    base_time_ms: int
    level: int


def rewrite_runs(
    store: ObjectStore,
    schema: TableSchema,
    options: TableOptions,
    attempt_id: str,
    rewrite: RunRewrite,
    *,
    memory_bytes: int = DEFAULT_REWRITE_MEMORY_BYTES,
) -> tuple[DataFile, ...]:
    """Writes some adjacent runs of a bucket as one sorted run. Blocks; runs on executors.

    The new files replace the inputs, with the latest of their places in the bucket's order. So no read changes, of any
    snapshot and whatever is committed by then or later.

    Args:
        store: Where the table's files are.
        schema: The table's schema; columns that older files lack are NULL in the new ones.
        options: The table's options.
        attempt_id: The attempt that owns the files.
        rewrite: What to do.
        memory_bytes: Bytes of rows in memory at once; some thousand rows of each run that meets others in any case.

    Returns:
        The files, by rising key ranges, which do not meet; none if no row is left. A failure leaves no file.

    Raises:
        InvalidArgument: The inputs are not adjacent.
        DataCorrupted: A data file is damaged or missing; named.
        LakelogError: The store failed.
    """
    rewriter = RunRewriter(store, schema, options, rewrite, memory_bytes)
    writer = rewriter.start_writer(attempt_id)
    try:
        for _, rows in rewriter.read_steps():
            writer.write(rows)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


class RunRewriter:
    """Reads and merges the runs of a rewrite step by step; for one thread. Arguments and errors as `rewrite_runs`.

    Files `beside` are read side by side with the inputs, but are not merged.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: TableSchema,
        options: TableOptions,
        rewrite: RunRewrite,
        memory_bytes: int,
        *,
        beside: Sequence[LiveFile] = (),
    ) -> None:
        assert rewrite.inputs, "there is something to rewrite"
        assert rewrite.level > 0, "what writers write is at level 0"
        policy = to_merge_policy(schema, options)
        self._store = store
        self._schema = schema
        self._memory_bytes = memory_bytes
        self._options = options
        self._data_files = DataFiles(store)
        self._key = policy.key
        self._rewrite = rewrite
        self._policy = policy
        self._rules = RewriteRules(
            policy.key, policy.sequence, policy.sequence_descending, policy.delete_retention_ms, policy.keep_first
        )
        fields = list(plan_file_schema(schema, with_row_kind=False))
        self._names = [field.name for field in fields]
        self._nothing = pa.schema(fields).empty_table()
        self._parts = to_run_parts(schema, policy.sequence, [*rewrite.inputs, *beside])
        self._older, newer = split_rest(rewrite.inputs, rewrite.rest)
        self._outlived_from_ms = _find_first_time(rewrite, newer) - policy.delete_retention_ms
        """A delete that was committed before this time no longer beats late rows."""
        has_deletes = any(file.delete_count for file in rewrite.inputs)
        latest_ms = max(file.order_time_ms for file in rewrite.inputs)
        beats_late = bool(policy.sequence) and latest_ms >= self._outlived_from_ms
        self._keeps_deletes = has_deletes and (bool(self._older) or beats_late or policy.keep_first)
        self._older_has_deletes = any(file.delete_count for file in self._older)
        has_times = bool(policy.sequence) and (self._keeps_deletes or self._older_has_deletes)
        has_marks = bool(policy.sequence) and bool(self._older)
        self._further = [*([TIME_FIELD] if has_times else []), *([REPLACES_FIELD] if has_marks else [])]
        decisive = [field for field in fields if field.name in (*policy.key, *policy.sequence)]
        self._lookup = KeyLookup(store, schema, policy, None, decisive)

    def read_steps(self) -> Iterator[tuple[list[AlignedRows], pa.Table]]:
        """Reads and merges.

        Yields:
            The next rows of each input and of each file beside, as of `read_aligned`, with all of the table's columns;
            and the kept rows of the inputs, by rising key: the table's columns, perhaps `_row_kind`, and the further
            columns of a compacted file.
        """
        count = len(self._rewrite.inputs)
        for step in read_aligned(self._data_files, self._parts, self._key, held_bytes=self._memory_bytes):
            inputs = step[:count]
            yield step, self._merge(inputs) if any(each.rows.num_rows for each in inputs) else self._nothing

    def start_writer(self, attempt_id: str) -> RollingWriter:
        """Begins to write the kept rows; the caller ends it."""
        return start_bucket_writer(
            self._store,
            self._schema,
            self._options,
            f"data/{attempt_id}/{self._rewrite.name}",
            self._rewrite.inputs[0],
            level=self._rewrite.level,
            with_row_kind=self._keeps_deletes,
            further=self._further,
        )

    def _merge(self, step: Sequence[AlignedRows]) -> pa.Table:
        present = [
            (each.rows, file) for each, file in zip(step, self._rewrite.inputs, strict=True) if each.rows.num_rows
        ]
        runs = [MergeRun(rows.drop_columns(self._payload(rows)), file.order_time_ms) for rows, file in present]
        merged = merge_for_rewrite(runs, self._rules)
        kept = RetainedRows(merged.rows, merged.replaces_older)
        older = self._find_older(runs, merged.rows)
        if older and len(merged.late):
            older_has_deletes = any(file.delete_count for file in older)
            contested = find_contested(runs, merged, self._rules, older_has_deletes=older_has_deletes)
            if contested is not None:
                below = self._lookup.find(older, _take_key(runs, contested.firsts, self._key)).run
                kept = resolve(runs, merged, contested, below, self._rules)
        kinds = _concat_kinds(runs)
        if kinds is not None:
            kept = self._drop_deletes(kept, kinds, runs, bool(older))
        return self._take([rows.select(self._names) for rows, _ in present], runs, kept, kinds)

    def _payload(self, rows: pa.Table) -> list[str]:
        decisive = {*self._policy.key, *self._policy.sequence}
        return [name for name in self._names if name not in decisive]

    def _find_older(self, runs: Sequence[MergeRun], rows: RowIndices) -> list[LiveFile]:
        """The files below that can hold a key of the step."""
        if not self._older:
            return []
        ends = _take_key(runs, rows[[0, -1]], self._key)
        first, last = (encode_key([column[place] for column in ends.columns]) for place in (0, 1))
        return [file for file in self._older if do_meet(KeyRange(first, last), KeyRange(file.min_key, file.max_key))]

    def _drop_deletes(
        self, kept: RetainedRows, kinds: npt.NDArray[np.int8], runs: Sequence[MergeRun], has_older: bool
    ) -> RetainedRows:
        retract = (kinds[kept.rows] == RowKind.DELETE) | (kinds[kept.rows] == RowKind.UPDATE_BEFORE)
        if has_older or self._policy.keep_first or not retract.any():
            return kept
        if self._policy.sequence:
            retract &= commit_times(runs, kept.rows) < self._outlived_from_ms
        marks = None if kept.replaces_older is None else kept.replaces_older[~retract]
        return RetainedRows(kept.rows[~retract], marks)

    def _take(
        self,
        tables: Sequence[pa.Table],
        runs: Sequence[MergeRun],
        kept: RetainedRows,
        kinds: npt.NDArray[np.int8] | None,
    ) -> pa.Table:
        rows = pa.concat_tables(tables)
        if len(tables) > 1 or len(kept.rows) < rows.num_rows:
            rows = rows.take(pa.array(kept.rows))
        if self._keeps_deletes:
            # All rows other than deletes are inserts in the output, whatever their kind was.
            codes = np.zeros(len(kept.rows), np.int8) if kinds is None else kinds[kept.rows]
            codes[codes == RowKind.UPDATE_AFTER] = RowKind.INSERT
            rows = rows.append_column(KIND_FIELD, pa.array(codes))
        for field in self._further:
            if field.name == TIME_FIELD.name:
                values = pa.array(commit_times(runs, kept.rows))
            elif kept.replaces_older is None:
                values = pa.nulls(len(kept.rows), pa.bool_())
            else:
                values = pa.array(kept.replaces_older)
            rows = rows.append_column(field, values)
        return rows


def to_run_parts(schema: TableSchema, sequence: tuple[str, ...], files: Sequence[LiveFile]) -> list[RunPart]:
    """The columns to read for a merge of files: all of the table's, and those that decide between rows. Pure."""
    fields = list(plan_file_schema(schema, with_row_kind=False))
    return [RunPart(file, [*fields, *pick_own_fields(file, sequence)]) for file in files]


def split_rest(
    inputs: Sequence[LiveFile], rest: Sequence[LiveFile]
) -> tuple[tuple[LiveFile, ...], tuple[LiveFile, ...]]:
    """Splits the other files of a bucket into those below the rewritten ones, and those above. Pure.

    Raises:
        InvalidArgument: A file lies between the inputs and shares keys with one below it, which would move above it.
    """
    latest = max(_place(file) for file in inputs)
    older = tuple(file for file in rest if _place(file) <= latest)
    for other in older:
        for file in inputs:
            if _place(file) < _place(other) and do_meet(_range(file), _range(other)):
                raise InvalidArgument(
                    f"Data file {other.path} lies between {file.path} and the newest file of a compaction and may hold "
                    "the same keys, so that its rows would become older than they are. Compact neighbouring runs.",
                    metadata={"path": other.path},
                )
    return older, tuple(file for file in rest if _place(file) > latest)


def _find_first_time(rewrite: RunRewrite, newer: Sequence[LiveFile]) -> int:
    """A time before which no row above the inputs was or ever will be committed."""
    latest_ms = max(file.order_time_ms for file in rewrite.inputs)
    # The output of a compaction may have rows from the time of the inputs' newest on.
    return min([rewrite.base_time_ms, *(latest_ms if file.level else file.order_time_ms for file in newer)])


def _concat_kinds(runs: Sequence[MergeRun]) -> npt.NDArray[np.int8] | None:
    """The kinds of all rows as codes; None: all are +I."""
    if not any(ROW_KIND_COLUMN in run.table.schema.names for run in runs):
        return None
    return np.concatenate(
        [
            np.asarray(run.table.column(ROW_KIND_COLUMN).to_numpy(), np.int8)
            if ROW_KIND_COLUMN in run.table.schema.names
            else np.zeros(run.table.num_rows, np.int8)
            for run in runs
        ]
    )


def _take_key(runs: Sequence[MergeRun], rows: RowIndices, key: Sequence[str]) -> pa.Table:
    return (
        pa.concat_tables([pa.table(run.table).select(list(key)) for run in runs]).take(pa.array(rows)).combine_chunks()
    )


def _place(file: LiveFile) -> Place:
    return file.order_snapshot, file.order_ordinal


def _range(file: LiveFile) -> KeyRange:
    return KeyRange(file.min_key, file.max_key)
