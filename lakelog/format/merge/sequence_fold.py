"""The fold over the commits for single keys of a table with sequence columns (semantics 1.3).

Merging needs it only for the few keys in which a late row may have outlived a delete, or a row replaces everything
before it; the sequence alone decides the others (`lakelog.format.merge.runs`).
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
        """Some of the records."""
        return Records(self.rows[choice], self.groups[choice], self.sequences[choice])


@dataclass(frozen=True)
class Facts:
    """For some rows: whether they delete, their commit times, whether they replace all older rows, their runs."""

    retract: Mask
    times: RowIndices
    replaces: Mask
    run_of: RowIndices


def fold_records(records: Records, facts: Facts, retention_ms: int) -> RowIndices:
    """Returns the winning row of each key by the fold itself: one vector step per run, over all keys at once.

    Within one run all rows have one commit time, so its highest row represents it. So there are at most as many steps
    as runs, however many rows a key has.
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
