"""Merging: which rows of a bucket's runs a later row of the same key replaces.

Objectives, which conflict: read and compaction cost little per row; the answer is exact for every history; memory is a
few words per row. So the common histories (no sequence field, or rows that arrive in sequence order) cost one stable
sort of the keys and a few vector operations. Each rarer history pays only for its own keys.

Invariants (semantics 1.3, 2.1, 2.4):

1. Rows of a key are ordered by sequence columns (NULL lowest), then run, then position; the last one wins. For the
   merge engine `first-row`, which has neither sequence columns nor deletes, the first one wins.
2. A winning `-U` or `-D` leaves no row. With sequence columns it goes on beating later rows of lower sequence, but only
   those committed at most `delete_retention_ms` after its own commit: a left fold over the commits, in which a row
   marked by `_replaces_older` always replaces everything before it.
3. Nothing here knows the source of rows: a writer's batch, files of a commit and compacted files are all runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import InvalidArgument
from lakelog.format.keys.ordering import Column, NumpyArray, comparable_keys, comparable_sequences, single_array
from lakelog.format.merge.sequence_fold import Facts, Records, fold_records
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, is_retract

COMMIT_TIMESTAMP_COLUMN: Final = "_commit_timestamp"
REPLACES_OLDER_COLUMN: Final = "_replaces_older"
DEFAULT_DELETE_RETENTION_MS: Final = 86_400_000
"""Default of `sequence.delete-retention`: one day."""

RowIndices: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_NONE: Final[RowIndices] = np.empty(0, np.int64)


@dataclass(frozen=True)
class MergeRun:
    """Rows of one bucket that take part in a merge as one step of its history.

    Attributes:
        table: The key columns, the sequence columns if there are any, and optionally `_row_kind` (int8 codes; without
            it every row is an insert), `_commit_timestamp` (int64 milliseconds; NULL or absent: `commit_time_ms`), by
            which a compacted run keeps the commit times of its rows, and `_replaces_older` (boolean; NULL or absent:
            false), which marks a row that stays whatever older runs hold (`lakelog.format.merge.rewrite`). The last two
            matter only with sequence columns. Other columns are ignored.
        commit_time_ms: When the run was committed, in milliseconds; matters only with deletes and sequence columns.
        sorted_unique: Whether the rows are sorted by key with one row per key, as in data files; False for rows in
            arrival order, which then all belong to one commit.
    """

    table: pa.Table | pa.RecordBatch
    commit_time_ms: int = 0
    sorted_unique: bool = True


def find_deleted_rows(
    runs: Sequence[MergeRun],
    key: Sequence[str],
    sequence: Sequence[str] = (),
    *,
    sequence_descending: bool = False,
    delete_retention_ms: int = DEFAULT_DELETE_RETENTION_MS,
    keep_deletes: bool = False,
    keep_first: bool = False,
) -> list[RowIndices]:
    """Returns for each run the positions of the rows that a read must leave out. Pure, reentrant.

    Args:
        runs: Oldest first; key and sequence columns have the same types in all runs.
        key: Names of the primary key's columns; no NULLs in them.
        sequence: Names of the `sequence.field` columns, most significant first; empty: arrival alone decides.
        sequence_descending: `sequence.field.sort-order` is `desc`.
        delete_retention_ms: `sequence.delete-retention`.
        keep_deletes: Leave winning `-U` and `-D` rows in, as for a merge whose result goes above older runs.
        keep_first: The first row of a key wins, as with the merge engine `first-row`; there is no sequence then.

    Returns:
        One ascending int64 array per run: positions of rows superseded by another row of their key, and, unless
        `keep_deletes`, of all `-U` and `-D` rows.

    Raises:
        InvalidArgument: A run lacks a column, a key is NULL, or types differ between the runs.
        DataCorrupted: `_row_kind` has a value other than the four codes.
    """
    if not runs:
        return []
    lengths = [run.table.num_rows for run in runs]
    retracts = [find_retracts(run) for run in runs]
    if len(runs) == 1 and runs[0].sorted_unique:
        deleted = np.zeros(lengths[0], bool)
    else:
        policy = _Policy(key, sequence, sequence_descending, delete_retention_ms, keep_first)
        deleted = _decide(runs, retracts, policy).deleted
    found: list[RowIndices] = []
    start = 0
    for length, retract in zip(lengths, retracts, strict=True):
        mask = deleted[start : start + length]
        if retract is not None and not keep_deletes:
            mask = mask | retract
        found.append(np.flatnonzero(mask))
        start += length
    return found


@dataclass(frozen=True)
class MergedRuns:
    """The rows that decide the keys of some runs, including deletes, as positions in the concatenation of the runs.

    Attributes:
        rows: One per key, by rising key.
        replaces_older: Which of them stay whatever older runs hold; None: none is known to.
        late: All rows of the keys whose rows did not come in sequence order, by key, then arrival.
        late_keys: A number for the key of each of these rows, rising.
    """

    rows: RowIndices
    replaces_older: Mask | None
    late: RowIndices
    late_keys: RowIndices


def merge_runs(
    runs: Sequence[MergeRun],
    key: Sequence[str],
    sequence: Sequence[str] = (),
    *,
    sequence_descending: bool = False,
    delete_retention_ms: int = DEFAULT_DELETE_RETENTION_MS,
    keep_first: bool = False,
) -> MergedRuns:
    """Returns the rows that decide the keys of some runs, by key. Pure; arguments and errors as `find_deleted_rows`."""
    if len(runs) == 1 and runs[0].sorted_unique:
        marks = _find_marks(runs) if sequence else None
        return MergedRuns(np.arange(runs[0].table.num_rows), marks, _NONE, _NONE)
    policy = _Policy(key, sequence, sequence_descending, delete_retention_ms, keep_first)
    decided = _decide(runs, [find_retracts(run) for run in runs], policy)
    marks = None
    if decided.marks is not None:
        starts = np.flatnonzero(np.append(True, ~decided.same))
        marks = np.logical_or.reduceat(decided.marks[decided.order], starts)
    late, late_keys = (_NONE, _NONE) if decided.late is None else (decided.late.rows, decided.late.groups)
    return MergedRuns(decided.order[~decided.deleted[decided.order]], marks, late, late_keys)


def merge_batch(
    table: pa.Table | pa.RecordBatch,
    key: Sequence[str],
    sequence: Sequence[str] = (),
    *,
    sequence_descending: bool = False,
    keep_first: bool = False,
) -> pa.Table | pa.RecordBatch:
    """Returns the rows of one commit's input as a sorted run: one row per key, ready to be written. Pure.

    Deletes stay, since they must hide older runs. The last row of a key wins, or the one of the highest sequence, or
    the first.

    Args:
        table: Key columns, sequence columns and any others, in arrival order; kinds in `_row_kind` do not matter here.
        key: Names of the primary key's columns; no NULLs in them.
        sequence: Names of the `sequence.field` columns, most significant first; empty: arrival alone decides.
        sequence_descending: `sequence.field.sort-order` is `desc`.
        keep_first: The first row of a key wins, as with the merge engine `first-row`; there is no sequence then.

    Returns:
        The same columns; the identical object if there is nothing to do.
    """
    order, same = _group(comparable_keys([table.column(name) for name in key]))
    if not same.any():
        return table if _is_identity(order) else table.take(order)
    deleted = np.zeros(len(order), bool)
    deleted[order[1:] if keep_first else order[:-1]] = same
    if sequence:
        # All rows belong to one commit, so no delete can be older than the retention.
        policy = _Policy(key, sequence, sequence_descending, 0)
        _correct_by_sequence(deleted, order, same, [MergeRun(table)], [None], None, policy)
    return table.take(order[~deleted[order]])


def commit_times(runs: Sequence[MergeRun], rows: RowIndices) -> RowIndices:
    """Returns the commit time of each of some rows, in milliseconds. Pure.

    Args:
        runs: Runs of one bucket.
        rows: Positions in the concatenation of the runs.
    """
    run_of = _run_of(runs, rows)
    times = np.array([run.commit_time_ms for run in runs], np.int64)[run_of]
    start = 0
    for number, run in enumerate(runs):
        if COMMIT_TIMESTAMP_COLUMN in run.table.schema.names:
            chosen = np.flatnonzero(run_of == number)
            own = run.table.column(COMMIT_TIMESTAMP_COLUMN).take(pa.array(rows[chosen] - start))
            times[chosen] = own.fill_null(run.commit_time_ms).to_numpy()
        start += run.table.num_rows
    return times


def find_retracts(run: MergeRun) -> Mask | None:
    """Returns for each row whether it deletes; None if all rows are inserts. Pure.

    Raises:
        DataCorrupted: `_row_kind` has a value other than the four codes.
    """
    if ROW_KIND_COLUMN not in run.table.schema.names:
        return None
    return is_retract(run.table.column(ROW_KIND_COLUMN))


@dataclass(frozen=True)
class _Policy:
    key: Sequence[str]
    sequence: Sequence[str]
    descending: bool
    delete_retention_ms: int
    keep_first: bool = False


@dataclass(frozen=True)
class _Decided:
    """The result for all rows.

    Attributes:
        order: As of `_group`, and so is `same`.
        deleted: Which rows are superseded.
        marks: Which rows are marked by `_replaces_older`; None: none is.
        late: All rows of the keys whose rows did not come in sequence order; None: there are none.
    """

    order: RowIndices
    same: Mask
    deleted: Mask
    marks: Mask | None
    late: Records | None


def _decide(runs: Sequence[MergeRun], retracts: Sequence[Mask | None], policy: _Policy) -> _Decided:
    order, same = _group(comparable_keys([_column(runs, name) for name in policy.key]))
    deleted = np.zeros(len(order), bool)
    deleted[order[1:] if policy.keep_first else order[:-1]] = same
    marks = late = None
    if policy.sequence and same.any():
        marks = _find_marks(runs)
        late = _correct_by_sequence(deleted, order, same, runs, retracts, marks, policy)
    elif policy.sequence:
        marks = _find_marks(runs)
    return _Decided(order, same, deleted, marks, late)


def _find_marks(runs: Sequence[MergeRun]) -> Mask | None:
    """Which rows are marked by `_replaces_older`; None: none is."""
    if not any(REPLACES_OLDER_COLUMN in run.table.schema.names for run in runs):
        return None
    parts = [
        np.asarray(
            single_array(run.table.column(REPLACES_OLDER_COLUMN)).fill_null(False).to_numpy(zero_copy_only=False)
        )
        if REPLACES_OLDER_COLUMN in run.table.schema.names
        else np.zeros(run.table.num_rows, bool)
        for run in runs
    ]
    marks: Mask = np.concatenate(parts).astype(bool)
    return marks if marks.any() else None


def _group(keys: NumpyArray) -> tuple[RowIndices, Mask]:
    """Returns the stable order of the keys, and for each place but the last whether the next one has the same key."""
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    same: Mask = in_order[1:] == in_order[:-1]
    return order, same


def _correct_by_sequence(
    deleted: Mask,
    order: RowIndices,
    same: Mask,
    runs: Sequence[MergeRun],
    retracts: Sequence[Mask | None],
    marks: Mask | None,
    policy: _Policy,
) -> Records | None:
    """Changes `deleted`, which is right by arrival, for the keys whose rows did not arrive in sequence order.

    Returns:
        All rows of these keys; None: there are none.
    """
    in_group = np.zeros(len(order), bool)
    in_group[:-1] = same
    in_group[1:] |= same
    places = np.flatnonzero(in_group)
    rows = order[places]
    groups = np.cumsum(~np.concatenate([[False], same])[places])
    taken = pa.array(rows)
    sequences = comparable_sequences([_column(runs, name).take(taken) for name in policy.sequence], policy.descending)
    late = (sequences[1:] < sequences[:-1]) & (groups[1:] == groups[:-1])
    if not late.any():
        return None
    concerned = np.zeros(int(groups[-1]) + 1, bool)
    concerned[groups[1:][late]] = True
    kept = concerned[groups]
    rows, groups, sequences = rows[kept], groups[kept], sequences[kept]
    winners = _last_of(groups, rows[np.lexsort((sequences, groups))])
    deleted[rows] = True
    deleted[winners] = False
    records = Records(rows, groups, sequences)
    _correct_by_fold(deleted, records, runs, retracts, marks, policy.delete_retention_ms)
    return records


def _correct_by_fold(
    deleted: Mask,
    records: Records,
    runs: Sequence[MergeRun],
    retracts: Sequence[Mask | None],
    marks: Mask | None,
    retention_ms: int,
) -> None:
    """Folds the keys in which a late row may have outlived a delete, or a row replaces everything before it.

    The others are right as they are.
    """
    has_retracts = any(retract is not None and retract.any() for retract in retracts)
    if not has_retracts and marks is None:
        return
    retract = np.concatenate(
        [np.zeros(run.table.num_rows, bool) if r is None else r for run, r in zip(runs, retracts, strict=True)]
    )[records.rows]
    times = commit_times(runs, records.rows)
    latest = np.full(int(records.groups.max()) + 1, np.iinfo(np.int64).min)
    np.maximum.at(latest, records.groups, times)
    replaces = np.zeros(len(retract), bool) if marks is None else marks[records.rows]
    folded = (retract & (latest[records.groups] - times > retention_ms)) | replaces
    if not folded.any():
        return
    concerned = np.zeros(len(latest), bool)
    concerned[records.groups[folded]] = True
    kept = np.flatnonzero(concerned[records.groups])
    facts = Facts(retract[kept], times[kept], replaces[kept], _run_of(runs, records.rows[kept]))
    winners = fold_records(records.select(kept), facts, retention_ms)
    deleted[records.rows[kept]] = True
    deleted[winners] = False


def _last_of(groups: RowIndices, rows: RowIndices) -> RowIndices:
    """Returns the last row of each group; the groups are adjacent in both arrays."""
    last: RowIndices = rows[np.append(groups[1:] != groups[:-1], True)]
    return last


def _run_of(runs: Sequence[MergeRun], rows: RowIndices) -> RowIndices:
    ends = np.cumsum([run.table.num_rows for run in runs])
    run_of: RowIndices = np.searchsorted(ends, rows, side="right")
    return run_of


def _column(runs: Sequence[MergeRun], name: str) -> pa.ChunkedArray:
    chunks: list[pa.Array] = []
    for number, run in enumerate(runs):
        if name not in run.table.schema.names:
            raise InvalidArgument(f"Run {number} of a merge has no column '{name}'; read it with its key columns.")
        column: Column = run.table.column(name)
        chunks.extend(column.chunks if isinstance(column, pa.ChunkedArray) else [column])
    types = {chunk.type for chunk in chunks}
    if len(types) > 1:
        raise InvalidArgument(
            f"Column '{name}' has different types in the runs of a merge: {', '.join(sorted(map(str, types)))}. "
            "Read all runs with one schema."
        )
    return pa.chunked_array(chunks, runs[0].table.schema.field(name).type)


def _is_identity(order: RowIndices) -> bool:
    return bool((order[1:] > order[:-1]).all())
