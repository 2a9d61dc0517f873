"""Changelogs: which change rows lead from one state of a table to the next (semantics 3).

For each key that a commit touched, a changelog states what was there before and what is there after: absent to present
is `+I new`, present to absent `-D old`, present to present `-U old, +U new`, absent to absent nothing. There is one net
change per key and commit. All changelogs, of a writer before its commit, a compactor or a reader, come from this
module.

Nothing here knows the source of old rows, files, or readers: rows go in, change rows come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import InvalidArgument
from lakelog.format.commit.request import ANY_TIME, TimeWindow
from lakelog.format.keys.ordering import NumpyArray, comparable_keys, comparable_sequences
from lakelog.format.merge.equality import equal_rows
from lakelog.format.merge.runs import (
    COMMIT_TIMESTAMP_COLUMN,
    DEFAULT_DELETE_RETENTION_MS,
    MergeRun,
    commit_times,
    find_retracts,
    merge_batch,
)
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind

RowIndices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_ABSENT: Final = -1
_PLACE: Final = "\x1fplace"
"""No column of a table has a control character in its name."""


@dataclass(frozen=True)
class ChangelogRules:
    """How changes of a table are emitted. Picklable, hashable.

    Args:
        key: Names of the key's columns within a bucket: the primary key without partition columns.
        sequence: `sequence.field`, most significant first; empty: arrival alone decides.
        sequence_descending: `sequence.field.sort-order` is `desc`.
        delete_retention_ms: `sequence.delete-retention`.
        keep_first: The first row of a key stays (the merge engine `first-row`), so only `+I` are emitted.
        drop_equal: Leave out updates whose old and new rows are equal (`changelog-producer.row-deduplicate`, and all
            changes that a reader normalizes).
        compared: Names of the columns that count for `drop_equal`; None: all.
    """

    key: tuple[str, ...]
    sequence: tuple[str, ...] = ()
    sequence_descending: bool = False
    delete_retention_ms: int = DEFAULT_DELETE_RETENTION_MS
    keep_first: bool = False
    drop_equal: bool = False
    compared: tuple[str, ...] | None = None


def find_difference(old: pa.Table, new: pa.Table, rules: ChangelogRules) -> pa.Table:
    """Returns the changes that lead from some keys' old rows to their new rows. Pure; no loop over rows.

    Args:
        old: The rows of these keys before, one row per key, in any order; without kinds.
        new: The rows of these keys after, with the same columns; keys may be in only one of the two.
        rules: How to emit them; the order of rows does not matter here.

    Returns:
        The columns of `new` and `_row_kind` (int8 codes), ordered by key, `-U` right before its `+U`.

    Raises:
        InvalidArgument: A key is repeated on one side, is NULL, or types differ.
    """
    rows = pa.concat_tables([old, new])
    groups, group_count = _number_keys(rows, rules.key)
    before, after = (np.full(group_count, _ABSENT) for _ in range(2))
    for side, start, table in ((before, 0, old), (after, old.num_rows, new)):
        own, places = groups[start : start + table.num_rows], np.arange(start, start + table.num_rows)
        side[own] = places
        if not np.array_equal(side[own], places):
            raise InvalidArgument(f"Rows of one state have the same key ({', '.join(rules.key)}). Merge them first.")
    return _emit(rows, before, after, np.zeros(group_count, np.int64), 1, rules)[0]


def fold_commits(base: MergeRun | None, commits: Sequence[Sequence[MergeRun]], rules: ChangelogRules) -> list[pa.Table]:
    """Returns the changelog of each of some successive commits to one bucket. Pure; no loop over rows.

    One pass handles all commits: a key's row before the second of them is known from the first, so only the first one's
    old rows need a lookup.

    Args:
        base: For the keys that the commits touch, the record that decided each before the first commit, one per key:
            with sequence columns including deletes, as they may go on beating late rows. None: there is none.
        commits: The runs of each commit in the order that decides between rows of one key; each run may have several
            rows of a key. All runs and the base have the same columns apart from `_row_kind`, which may be missing if
            all rows are inserts.
        rules: How to emit the changes.

    Returns:
        For each commit the columns of the runs and `_row_kind` (int8 codes), ordered by key, `-U` right before its
        `+U`.

    Raises:
        InvalidArgument: A column is missing, a key is NULL, or types differ.
        DataCorrupted: `_row_kind` has a value other than the four codes.
    """
    return _fold(base, commits, rules).changes if commits else []


@dataclass(frozen=True)
class CommitChanges:
    """The changes of one commit.

    Attributes:
        changes: As of `fold_commits`.
        base_shown: Which rows of the base a read shows after it.
        shown: Which rows of each run it shows.
        window: The commit times for which all this is valid: if late rows met deletes of higher sequence, its time
            decides between them.
    """

    changes: pa.Table
    base_shown: Mask
    shown: list[Mask]
    window: TimeWindow


def fold_commit(base: MergeRun | None, runs: Sequence[MergeRun], rules: ChangelogRules) -> CommitChanges:
    """Returns the changelog of one commit, and which of its input rows are left. Pure; see `fold_commits`."""
    everything = [*([] if base is None else [base]), *runs]
    starts = np.cumsum([0, *(run.table.num_rows for run in everything)])
    placed = [
        replace(run, table=pa.table(run.table).append_column(_PLACE, pa.array(np.arange(first, last))))
        for run, first, last in zip(everything, starts, starts[1:], strict=False)
    ]
    names = _column_names(everything)
    effective = replace(rules, compared=tuple(names or ()) if rules.compared is None else rules.compared)
    folded = _fold(None if base is None else placed[0], [placed[len(placed) - len(runs) :]], effective)
    shown = np.zeros(int(starts[-1]), bool)
    shown[folded.rows.column(_PLACE).to_numpy()[folded.left]] = True
    parts = np.split(shown, starts[1:-1])
    return CommitChanges(
        folded.changes[0].drop_columns([_PLACE]),
        np.empty(0, bool) if base is None else parts[0],
        parts[len(parts) - len(runs) :],
        folded.window,
    )


@dataclass(frozen=True)
class _Folded:
    """The changes of each commit; all input rows, one per key and commit; which of them are left."""

    changes: list[pa.Table]
    rows: pa.Table
    left: RowIndices
    window: TimeWindow


def _fold(base: MergeRun | None, commits: Sequence[Sequence[MergeRun]], rules: ChangelogRules) -> _Folded:
    names = _column_names([run for commit in commits for run in commit] + ([] if base is None else [base]))
    if names is None:
        raise InvalidArgument("None of the commits has a run, so their columns are not known. Give an empty one.")
    # Rows of one commit have one commit time, so its last row of a key represents it (merge.py).
    merged = [_merge_commit(commit, rules) for commit in commits]
    runs = [*([] if base is None else [base]), *(run for run in merged if run is not None)]
    # If no run has a row, one of them still defines the columns.
    runs = runs or [run for commit in commits for run in commit][:1]
    rows = pa.concat_tables([_select(run, names) for run in runs]).combine_chunks()
    groups, group_count = _number_keys(rows, rules.key)
    records = _Records.of(runs, rows, rules)
    current = np.full(group_count, _ABSENT)
    start = 0
    if base is not None:
        start = base.table.num_rows
        current[groups[:start]] = np.arange(start)
    emitted: list[tuple[RowIndices, RowIndices]] = []
    window = ANY_TIME
    for run in merged:
        end = start + (0 if run is None else run.table.num_rows)
        own = np.arange(start, end)
        old = current[groups[own]]
        window = window.meet(records.find_window(own, old, rules))
        new = np.where(records.wins(own, old, rules), own, old)
        current[groups[own]] = new
        emitted.append((records.visible(old), records.visible(new)))
        start = end
    before, after = (np.concatenate(side) for side in zip(*emitted, strict=True))
    commit_of = np.repeat(np.arange(len(emitted)), [len(own) for own, _ in emitted])
    left = records.visible(current)
    changes = _emit(rows, before, after, commit_of, len(emitted), rules)
    return _Folded(changes, rows, left[left != _ABSENT], window)


@dataclass(frozen=True)
class _Records:
    """What decides between the rows of all runs: sequences (None: arrival), commit times, whether they delete."""

    sequences: NumpyArray | None
    times: RowIndices
    retract: Mask

    @staticmethod
    def of(runs: Sequence[MergeRun], rows: pa.Table, rules: ChangelogRules) -> _Records:
        sequences = None
        if rules.sequence:
            sequences = comparable_sequences([rows.column(name) for name in rules.sequence], rules.sequence_descending)
        found = [find_retracts(run) for run in runs]
        none = [np.zeros(run.table.num_rows, bool) for run in runs]
        retract = np.concatenate([own if own is not None else no for own, no in zip(found, none, strict=True)])
        return _Records(sequences, commit_times(runs, np.arange(rows.num_rows)), retract)

    def wins(self, new: RowIndices, old: RowIndices, rules: ChangelogRules) -> Mask:
        """Whether each new record replaces the one that decided so far."""
        if rules.keep_first:
            first: Mask = old == _ABSENT
            return first
        if self.sequences is None:
            return np.ones(len(new), bool)
        outlived = self.retract[old] & (self.times[new] - self.times[old] > rules.delete_retention_ms)
        wins: Mask = (old == _ABSENT) | (self.sequences[new] >= self.sequences[old]) | outlived
        return wins

    def find_window(self, new: RowIndices, old: RowIndices, rules: ChangelogRules) -> TimeWindow:
        """The times of the new records for which `wins` is unchanged: late ones after a delete may outlive it."""
        if self.sequences is None:
            return ANY_TIME
        late = (old != _ABSENT) & self.retract[old] & (self.sequences[new] < self.sequences[old])
        if not late.any():
            return ANY_TIME
        ends = self.times[old[late]] + rules.delete_retention_ms
        is_over = self.times[new[late]] > ends
        after, until = ends[is_over], ends[~is_over]
        return TimeWindow(int(after.max()) if len(after) else None, int(until.min()) if len(until) else None)

    def visible(self, records: RowIndices) -> RowIndices:
        """The rows that a read shows for these deciding records."""
        return np.where((records != _ABSENT) & ~self.retract[records], records, _ABSENT)


def _emit(
    rows: pa.Table,
    before: RowIndices,
    after: RowIndices,
    commit_of: RowIndices,
    commit_count: int,
    rules: ChangelogRules,
) -> list[pa.Table]:
    """The change rows of each commit; `before` and `after` are positions in `rows`, by commit, then key."""
    was, is_ = before != _ABSENT, after != _ABSENT
    # If the first row stays, a commit to an existing key changes nothing; a difference of states does.
    kept = (was | is_) & ~((before == after) & rules.keep_first)
    updated = np.flatnonzero(was & is_ & kept)
    if rules.drop_equal and len(updated):
        names = rows.schema.names if rules.compared is None else rules.compared
        compared = [name for name in names if name not in rules.key]
        # A table without columns has no rows either, which then are all equal.
        old, new = (rows.select(compared).take(pa.array(side[updated])) for side in (before, after))
        kept[updated[equal_rows(old, new, compared)] if compared else updated] = False
    was, is_ = was & kept, is_ & kept
    # Two places per key, the old row's and the new one's, so that they are adjacent.
    sides = np.stack([before, after], axis=1).ravel()
    shown = np.stack([was, is_], axis=1).ravel()
    both = was & is_
    kinds = np.stack(
        [
            np.where(both, RowKind.UPDATE_BEFORE, RowKind.DELETE),
            np.where(both, RowKind.UPDATE_AFTER, RowKind.INSERT),
        ],
        axis=1,
    ).ravel()
    changes = rows.take(pa.array(sides[shown])).append_column(
        pa.field(ROW_KIND_COLUMN, pa.int8(), nullable=False), pa.array(kinds[shown], pa.int8())
    )
    counts = np.bincount(np.repeat(commit_of, 2)[shown], minlength=commit_count)
    starts = np.cumsum(counts) - counts
    return [changes.slice(int(first), int(count)) for first, count in zip(starts, counts, strict=True)]


def _merge_commit(runs: Sequence[MergeRun], rules: ChangelogRules) -> MergeRun | None:
    """One row per key of a commit's rows, ordered by key."""
    runs = [run for run in runs if run.table.num_rows]
    if not runs:
        return None
    if len(runs) == 1 and runs[0].sorted_unique:
        return runs[0]
    rows = pa.concat_tables([pa.table(run.table) for run in runs], promote_options="default").combine_chunks()
    if ROW_KIND_COLUMN in rows.schema.names:
        # If one run has kinds, the rows of the others are inserts.
        place = rows.schema.get_field_index(ROW_KIND_COLUMN)
        rows = rows.set_column(place, ROW_KIND_COLUMN, rows.column(place).fill_null(RowKind.INSERT))
    merged = merge_batch(
        rows,
        rules.key,
        rules.sequence,
        sequence_descending=rules.sequence_descending,
        keep_first=rules.keep_first,
    )
    return MergeRun(merged, runs[0].commit_time_ms)


def _column_names(runs: Sequence[MergeRun]) -> list[str] | None:
    if not runs:
        return None
    own = {ROW_KIND_COLUMN, COMMIT_TIMESTAMP_COLUMN}
    return [name for name in runs[0].table.schema.names if name not in own]


def _select(run: MergeRun, names: Sequence[str]) -> pa.Table:
    missing = [name for name in names if name not in run.table.schema.names]
    if missing:
        raise InvalidArgument(f"A run of a changelog has no column '{missing[0]}'. Read all runs with one schema.")
    return pa.table(run.table).select(names)


def _number_keys(rows: pa.Table, key: Sequence[str]) -> tuple[RowIndices, int]:
    """The number of each row's key, rising with the keys, and the number of keys."""
    keys = comparable_keys([rows.column(name) for name in key])
    if len(keys) == 0:
        return np.empty(0, np.int64), 0
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    numbers = np.cumsum(np.concatenate([[False], in_order[1:] != in_order[:-1]]))
    groups = np.empty(len(keys), np.int64)
    groups[order] = numbers
    return groups, int(numbers[-1]) + 1
