"""Which rows a compaction keeps of adjacent runs of a bucket, so that no later read changes.

A compaction replaces several runs by one row per key, without knowing the content of the runs below. If rows arrived in
sequence order this is simple: the row that decides the key among these runs decides it whatever is below. If they did
not, and deletes go on beating late rows for a while (semantics 1.3), the result may depend on the record below, in one
of two ways:

1. That record is a delete that beat the deciding row, but not the late one after it, which came when the delete's time
   was over: among these runs alone the late one loses.
2. It was superseded by a delete of these runs, and then a late row outlived this delete; that row alone would not win
   against it.

Such keys are *contested*: the record below is looked up, which is possible since older files never change, and the fold
includes it. The result is kept. If it would not win by itself against what is below, it is marked `_replaces_older`; if
the record below stays, nothing is kept. All this is pure; the caller looks the record up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.format.merge.runs import (
    COMMIT_TIMESTAMP_COLUMN,
    MergedRuns,
    MergeRun,
    commit_times,
    find_deleted_rows,
    find_retracts,
    merge_runs,
)

RowIndices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_NOTHING: Final = -1


@dataclass(frozen=True)
class RewriteRules:
    """Decides between rows of one key. Picklable, hashable.

    Args:
        key: Names of the key's columns within a bucket.
        sequence: `sequence.field`, most significant first; empty: arrival alone decides.
        sequence_descending: `sequence.field.sort-order` is `desc`.
        delete_retention_ms: `sequence.delete-retention`.
        keep_first: The first row of a key stays (the merge engine `first-row`).
    """

    key: tuple[str, ...]
    sequence: tuple[str, ...]
    sequence_descending: bool
    delete_retention_ms: int
    keep_first: bool


@dataclass(frozen=True)
class RetainedRows:
    """The rows that are kept of some runs.

    Attributes:
        rows: Positions in the concatenation of the runs, by rising key, one per key.
        replaces_older: Which of them get this mark; None: none.
    """

    rows: RowIndices
    replaces_older: Mask | None


@dataclass(frozen=True)
class ContestedKeys:
    """Keys that the record below these runs can affect.

    Attributes:
        rows: Positions of all their rows in the concatenation of the runs, by key, then arrival.
        keys: The number of the key of each row: 0, 1 ...
        firsts: The first row of each key.
    """

    rows: RowIndices
    keys: RowIndices
    firsts: RowIndices


def merge_for_rewrite(runs: Sequence[MergeRun], rules: RewriteRules) -> MergedRuns:
    """Returns what decides the keys of some runs among these alone. Pure."""
    return merge_runs(
        runs,
        rules.key,
        rules.sequence,
        sequence_descending=rules.sequence_descending,
        delete_retention_ms=rules.delete_retention_ms,
        keep_first=rules.keep_first,
    )


def find_contested(
    runs: Sequence[MergeRun], merged: MergedRuns, rules: RewriteRules, *, older_has_deletes: bool
) -> ContestedKeys | None:
    """Returns the keys whose row depends on what is below the runs; None: there are none. Pure.

    Args:
        runs: Oldest first.
        merged: The result of `merge_for_rewrite` for them.
        rules: The merge rules.
        older_has_deletes: Whether a delete may be below.
    """
    if len(merged.late) == 0:
        return None
    count = int(merged.late_keys[-1]) + 1
    # A key with a row that replaces everything older is not contested: what is below has no effect any more.
    concerned = np.ones(count, bool)
    if not older_has_deletes:
        concerned = _find_outlived(runs, merged, rules, count)
    if merged.replaces_older is not None:
        concerned[merged.late_keys[np.isin(merged.late, merged.rows[merged.replaces_older])]] = False
    chosen = concerned[merged.late_keys]
    if not chosen.any():
        return None
    rows, keys = merged.late[chosen], merged.late_keys[chosen]
    starts = np.append(True, keys[1:] != keys[:-1])
    return ContestedKeys(rows, np.cumsum(starts) - 1, rows[starts])


def resolve(
    runs: Sequence[MergeRun], merged: MergedRuns, contested: ContestedKeys, older: MergeRun, rules: RewriteRules
) -> RetainedRows:
    """Returns the kept rows, given the records below contested keys. Pure.

    Args:
        runs: Oldest first.
        merged: The result of `merge_for_rewrite` for them.
        contested: Their contested keys.
        older: The record below each contested key, if there is one: key and sequence columns, `_row_kind` and
            `_commit_timestamp`; sorted by key.
        rules: The merge rules.
    """
    parts = _take_rows(runs, np.sort(contested.rows))
    together = merge_for_rewrite([older, *parts], rules)
    below = older.table.num_rows
    decides = np.sort(contested.rows)[together.rows[together.rows >= below] - below]
    # A row decides in place of the record below it, or with a mark: does it without a mark?
    alone = _take_rows(runs, np.sort(decides))
    beaten = find_deleted_rows(
        [older, *alone],
        rules.key,
        rules.sequence,
        sequence_descending=rules.sequence_descending,
        delete_retention_ms=rules.delete_retention_ms,
        keep_deletes=True,
    )[1:]
    starts = np.cumsum([0, *(run.table.num_rows for run in alone)])
    gone = np.concatenate([np.empty(0, np.int64), *(own + start for own, start in zip(beaten, starts, strict=False))])
    needs_mark = np.sort(decides)[gone.astype(np.int64)]

    rows = merged.rows.copy()
    marks = np.zeros(len(rows), bool) if merged.replaces_older is None else merged.replaces_older.copy()
    # Both hold one row per contested key, by rising key.
    places = np.flatnonzero(np.isin(rows, contested.rows))
    order = np.argsort(contested.rows)
    key_of = contested.keys[order][np.searchsorted(contested.rows[order], decides)]
    resolved = np.full(len(contested.firsts), _NOTHING)
    resolved[key_of] = decides
    rows[places] = resolved
    marks[places] = np.isin(resolved, needs_mark)
    kept = rows != _NOTHING
    return RetainedRows(rows[kept], marks[kept] if marks.any() else None)


def _find_outlived(runs: Sequence[MergeRun], merged: MergedRuns, rules: RewriteRules, count: int) -> Mask:
    """In which of the late keys a row came after the time of a delete of these runs was over."""
    outlived = np.zeros(count, bool)
    found = [find_retracts(run) for run in runs]
    if all(retract is None for retract in found):
        return outlived
    retract = np.concatenate(
        [np.zeros(run.table.num_rows, bool) if own is None else own for run, own in zip(runs, found, strict=True)]
    )[merged.late]
    times = commit_times(runs, merged.late)
    latest = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(latest, merged.late_keys, times)
    outlived[merged.late_keys[retract & (latest[merged.late_keys] - times > rules.delete_retention_ms)]] = True
    return outlived


def _take_rows(runs: Sequence[MergeRun], rows: RowIndices) -> list[MergeRun]:
    """Some rows of each run, given by rising positions in their concatenation, each with its commit time."""
    parts: list[MergeRun] = []
    start = 0
    for run in runs:
        end = start + run.table.num_rows
        first, last = np.searchsorted(rows, (start, end))
        own = pa.array(rows[first:last] - start)
        times = pa.array(commit_times([run], rows[first:last] - start))
        table = pa.table(run.table)
        if COMMIT_TIMESTAMP_COLUMN in table.schema.names:
            table = table.drop_columns([COMMIT_TIMESTAMP_COLUMN])
        parts.append(MergeRun(table.take(own).append_column(COMMIT_TIMESTAMP_COLUMN, times), run.commit_time_ms))
        start = end
    return parts
