"""The fold over the commits of one key after the other, where a table names sequence columns (semantics 1.3).

Merging needs it only for the few keys in which a delete may have been outlived by a late row, or a row says that it
replaces whatever came before it; the others are decided by their sequence alone (`lakelog.format.merge.runs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lakelog.format.keys.ordering import NumpyArray

RowIndices: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Records:
    """Rows of some keys, ordered by key, then arrival: positions in the concatenation, key numbers, sequences."""

    rows: RowIndices
    groups: RowIndices
    sequences: NumpyArray

    def select(self, choice: NumpyArray) -> Records:
        """Some of them."""
        return Records(self.rows[choice], self.groups[choice], self.sequences[choice])


@dataclass(frozen=True)
class Facts:
    """Of some rows: whether they take away, when they were committed, whether they replace all older, their runs."""

    retract: Mask
    times: RowIndices
    replaces: Mask
    run_of: RowIndices


def fold_records(records: Records, facts: Facts, retention_ms: int) -> RowIndices:
    """Return the winning row of each key by the fold itself: one vector step a run, over all keys at once.

    Within one run all rows have one commit time, so its highest row decides for it; so the steps are at most as many as
    runs, however many rows a key has.
    """
    run_of = facts.run_of
    by_run = np.lexsort((records.sequences, run_of, records.groups))
    ends = np.flatnonzero(
        np.append(
            (records.groups[by_run][1:] != records.groups[by_run][:-1]) | (run_of[by_run][1:] != run_of[by_run][:-1]),
            True,
        )
    )
    chosen = by_run[ends]
    groups, sequences = records.groups[chosen], records.sequences[chosen]
    retract, times, replaces = facts.retract[chosen], facts.times[chosen], facts.replaces[chosen]
    starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    counts = np.diff(np.append(starts, len(groups)))
    state = starts.copy()
    for step in range(1, int(counts.max())):
        going = np.flatnonzero(counts > step)
        new, old = starts[going] + step, state[going]
        outlived = retract[old] & (times[new] - times[old] > retention_ms)
        wins = (sequences[new] >= sequences[old]) | outlived | replaces[new]
        state[going[wins]] = new[wins]
    winners: RowIndices = records.rows[chosen[state]]
    return winners
