"""Compares records that were sent before their commit with the rows of the commits that followed. Pure.

Such a record names an attempt, and its place in that alone: the order is the writer's. So single rows are not known,
but the number in each partition is. A repeated record has the same place, and counts once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from lakelog.format.keys.index_ranges import IndexRanges
from lakelog.log.columns import take_fetched
from lakelog.log.records import FetchedRecords
from lakelog.log.tally import Mask, SnapshotRows

_ID: Final = re.compile(rb"[0-9a-f]{32}")
_EXAMPLES: Final = 5


@dataclass(frozen=True)
class UncommittedFindings:
    """What was sent before its commit, and what of it is missing.

    Args:
        records: How many records were read.
        rows: How many rows must be there.
        snapshots: How many snapshots these rows belong to.
        lost: Rows that are not there.
        duplicates: Records of rows that are there already, from here or sent after the commit.
        foreign: Records that name no attempt's row.
        torn: Snapshots of which only a part is there.
        compacted: Rows that are gone because the topic retains only the last record of each key.
        unkept: Rows that are gone, or may be, because the topic retains records for a limited time.
        others: The number of records by attempt, for attempts that belong to none of the snapshots.
        examples: The first faults.
    """

    records: int
    rows: int
    snapshots: int
    lost: int
    duplicates: int
    foreign: int
    torn: tuple[int, ...]
    compacted: int
    unkept: int
    others: Mapping[str, int]
    examples: tuple[str, ...]


def split_uncommitted(records: FetchedRecords) -> tuple[FetchedRecords, FetchedRecords]:
    """Records that were sent before their commit, and all others. Pure."""
    is_early = np.asarray(pc.is_valid(records.attempts))
    if not is_early.any():
        return take_fetched(records, is_early), records
    return take_fetched(records, is_early), take_fetched(records, ~is_early)


@dataclass
class UncommittedTally:
    """Takes records as they come.

    Args:
        snapshots: The rows that must be there, by the attempt that sent them: all rows of these snapshots were sent.
        ids: The numbers of these snapshots, by attempt.
        later: Attempts whose rows are in the log a second time, since all were sent again after the commit.
        starts: The first retained offset of each partition.
        is_compacted: The topic retains only the last record of each key.
    """

    snapshots: Mapping[str, SnapshotRows]
    ids: Mapping[str, int]
    later: frozenset[str]
    starts: tuple[int, ...]
    is_compacted: bool = False
    _records: int = 0
    _duplicates: int = 0
    _foreign: int = 0
    _seen: dict[tuple[str, int, bool], IndexRanges] = field(default_factory=dict)
    _counts: dict[tuple[str, int], int] = field(default_factory=dict)
    _others: dict[str, int] = field(default_factory=dict)
    _examples: list[str] = field(default_factory=list)

    def add(self, records: FetchedRecords) -> None:
        """Takes some records that name an attempt."""
        self._records += len(records)
        indexes = np.asarray(pc.fill_null(records.indexes, -1))
        is_old = np.asarray(pc.fill_null(pc.equal(records.kinds, b"-U"), False))
        encoded = records.attempts.dictionary_encode()
        codes = np.asarray(encoded.indices)
        # There may be as many attempts as records, so each one works only on its own records.
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
        for code, name in enumerate(encoded.dictionary.to_pylist()):
            mine = order[starts[code] : starts[code + 1]]
            is_wrong = indexes[mine] < 0 if _ID.fullmatch(name) else np.ones(len(mine), np.bool_)
            if is_wrong.any():
                self._foreign += int(is_wrong.sum())
                at = int(mine[is_wrong.argmax()])
                self._note(f"partition {records.partitions[at]} offset {records.offsets[at]} names no attempt's row")
            own = mine[~is_wrong]
            self._take(name.decode("ascii", "replace"), records.partitions[own], indexes[own], is_old[own])

    def _take(
        self,
        attempt: str,
        partitions: npt.NDArray[np.int32],
        indexes: npt.NDArray[np.int64],
        is_old: Mask,
    ) -> None:
        count = len(indexes)
        if attempt not in self.ids:
            if count:
                self._others[attempt] = self._others.get(attempt, 0) + count
            return
        if attempt in self.later:
            self._duplicates += count
            return
        for partition in np.unique(partitions).tolist():
            for old in (False, True):
                # An old row may have its own record, or be in the one of its new row: do not rely on either.
                own = indexes[(partitions == partition) & (is_old == old)]
                new = int(self._seen.setdefault((attempt, partition, old), IndexRanges()).add(own).sum())
                self._duplicates += len(own) - new
                if not old:
                    self._counts[attempt, partition] = self._counts.get((attempt, partition), 0) + new

    def finish(self, published_until: int) -> UncommittedFindings:
        """The findings, once all records were taken.

        Args:
            published_until: Rows up to and with this snapshot must be there; later ones may be.
        """
        lost = compacted = unkept = rows = snapshots = 0
        torn: list[int] = []
        for attempt, expected in self.snapshots.items():
            if self.ids[attempt] > published_until:
                continue
            snapshots += 1
            rows += int(expected.has_record.sum())
            missing, gone = self._find_missing(attempt, expected)
            unkept += gone
            if self.is_compacted:
                compacted += missing
            elif missing:
                lost += missing
                snapshot_id = self.ids[attempt]
                self._note(f"snapshot {snapshot_id} lacks {missing} rows that attempt {attempt} had sent")
                if any(self._counts.get((attempt, partition), 0) for partition in range(len(self.starts))):
                    torn.append(snapshot_id)
        return UncommittedFindings(
            records=self._records,
            rows=rows,
            snapshots=snapshots,
            lost=lost,
            duplicates=self._duplicates,
            foreign=self._foreign,
            torn=tuple(sorted(torn)),
            compacted=compacted,
            unkept=unkept,
            others=self._others,
            examples=tuple(self._examples),
        )

    def _find_missing(self, attempt: str, expected: SnapshotRows) -> tuple[int, int]:
        """How many rows of an attempt are lost, and how many may have been before the retained records."""
        counts = [self._counts.get((attempt, partition), 0) for partition in range(len(self.starts))]
        if expected.partitions is None:
            missing = max(0, int(expected.has_record.sum()) - sum(counts))
            return (0, missing) if any(self.starts) else (missing, 0)
        wanted = np.bincount(expected.partitions[expected.has_record], minlength=len(self.starts))
        missing_by = np.maximum(wanted - counts, 0)
        is_cut = np.array(self.starts) > 0
        return int(missing_by[~is_cut].sum()), int(missing_by[is_cut].sum())

    def _note(self, example: str) -> None:
        if len(self._examples) < _EXAMPLES:
            self._examples.append(example)
