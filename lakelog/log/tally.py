"""Compares a log's records with the rows that the table's snapshots bring to it. Pure, in columns.

Only headers count: the snapshot that a record belongs to, by id and uuid, and the row of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.log.records import FetchedRecords

Mask = npt.NDArray[np.bool_]

_EXAMPLES: Final = 5
_MOST: Final = 255


@dataclass(frozen=True)
class SnapshotRows:
    """The rows that one snapshot brings to the log, by index.

    Args:
        snapshot_uuid: The snapshot's uuid.
        has_record: Whether a row has its own record; an old row may have one, or be part of its new row's record.
        partitions: The partition of each; None: not known.
        stays: The rows that stay for ever if the topic retains the last record of each key: the last ones, without
            deletes; None: not known.
    """

    snapshot_uuid: str
    has_record: Mask
    partitions: npt.NDArray[np.int32] | None
    stays: Mask | None = None


@dataclass(frozen=True)
class LogFindings:
    """What a log contains, and what it lacks.

    Args:
        records: How many records were read.
        rows: How many rows must be there with their own records.
        snapshots: How many snapshots these rows belong to.
        lost: Rows that are not there.
        duplicates: Records of rows that are there already.
        disordered: Records that come after one that should follow them in their partition.
        foreign: Records of other programs: without our headers, or of a snapshot or row that the table does not have.
        torn: Snapshots of which only a part is there.
        compacted: Rows that are gone because the topic retains only the last record of each key; no fault.
        expired: Rows that are gone because the topic retains records for a limited time; no fault.
        earlier: Records from before the log began, or of snapshots that are no longer retained; not checked.
        examples: The first faults.
        taken_back: Records of writes that were given up, or that the metastore no longer knows; readers of the table
            skip them. No fault: only logs whose records are sent before their commit have them.
        uncommitted: Records of writes that may still be committed; no fault.
        may_repeat: Records may be there more than once.
    """

    records: int
    rows: int
    snapshots: int
    lost: int
    duplicates: int
    disordered: int
    foreign: int
    torn: tuple[int, ...]
    compacted: int
    expired: int
    earlier: int
    examples: tuple[str, ...]
    taken_back: int = 0
    uncommitted: int = 0
    may_repeat: bool = False

    @property
    def is_fine(self) -> bool:
        """Whether there is no fault."""
        repeated = 0 if self.may_repeat else self.duplicates
        return not (self.lost or repeated or self.disordered or self.foreign or self.torn)


@dataclass
class LogTally:
    """Takes records as they come, those of each partition in their order.

    Args:
        snapshots: The rows that the table's snapshots bring, by id: all after `after` up to and with `until`, without
            those that bring nothing.
        after: Records of this snapshot and of earlier ones are not checked.
        published_until: Rows up to and with this snapshot must be there; later ones may be.
        starts: The first retained offset of each partition.
        is_compacted: The topic retains only the last record of each key.
        is_shared: Records before the log's first one in a partition may be foreign: from an earlier generation, or from
            programs that used the topic before.
        elsewhere: Snapshots whose rows were sent before their commit, and need not be there a second time.
    """

    snapshots: Mapping[int, SnapshotRows]
    after: int
    published_until: int
    starts: tuple[int, ...]
    is_compacted: bool
    is_shared: bool = False
    elsewhere: frozenset[int] = frozenset()
    _records: int = 0
    _duplicates: int = 0
    _disordered: int = 0
    _foreign: int = 0
    _earlier: int = 0
    _counts: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict)
    _firsts: dict[int, tuple[int, int]] = field(default_factory=dict)
    _whole: set[int] = field(default_factory=set)
    _lasts: dict[int, tuple[int, int]] = field(default_factory=dict)
    _examples: list[str] = field(default_factory=list)

    def add(self, records: FetchedRecords) -> None:
        """Takes some records."""
        self._records += len(records)
        has_headers = np.asarray(
            pc.and_(
                pc.and_(pc.is_valid(records.snapshot_ids), pc.is_valid(records.uuids)), pc.is_valid(records.indexes)
            )
        )
        numbers = np.asarray(pc.fill_null(records.snapshot_ids, -1))
        indexes = np.asarray(pc.fill_null(records.indexes, -1))
        ours = has_headers & self._is_of_table(numbers, records.uuids)
        is_earlier = (has_headers & (numbers <= self.after)) | (~ours & self._is_before_first(records.partitions, ours))
        self._earlier += int(is_earlier.sum())
        # If these are retained, all that came after them is.
        self._whole.update(np.unique(records.partitions[is_earlier]).tolist())
        others = ~(ours | is_earlier)
        self._note_foreign(records, others & ~has_headers, "has no headers of ours")
        self._note_foreign(
            records,
            others & has_headers,
            "is of a snapshot that the table does not have, or that brings nothing to its log",
        )
        for snapshot_id in np.unique(numbers[ours]).tolist():
            ours &= self._count(snapshot_id, records, ours & (numbers == snapshot_id), indexes)
        for partition in np.unique(records.partitions[ours]).tolist():
            of_partition = ours & (records.partitions == partition)
            self._follow(partition, records, np.flatnonzero(of_partition), numbers, indexes)

    def _is_of_table(self, numbers: npt.NDArray[np.int64], uuids: pa.Array) -> Mask:
        """Whether records belong to a snapshot that the table has, by number and uuid."""
        if not self.snapshots:
            return np.zeros(len(numbers), np.bool_)
        known = np.array(sorted(self.snapshots), np.int64)
        places = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
        named = pa.array([self.snapshots[number].snapshot_uuid.encode() for number in known.tolist()], pa.binary())
        is_same = np.asarray(pc.fill_null(pc.equal(uuids, named.take(pa.array(places))), False))
        return is_same & (known[places] == numbers)

    def _is_before_first(self, partitions: npt.NDArray[np.int32], ours: Mask) -> Mask:
        """Whether records come before our first one in their partition, in a topic that others have used."""
        is_before = np.zeros(len(partitions), np.bool_)
        if self.is_shared:
            for partition in set(np.unique(partitions).tolist()) - self._firsts.keys():
                of_partition = partitions == partition
                begun = np.flatnonzero(of_partition & ours)
                is_before[: begun[0] if len(begun) else None] |= of_partition[: begun[0] if len(begun) else None]
        return is_before

    def finish(self) -> LogFindings:
        """The findings, once all records were taken."""
        lost = compacted = expired = rows = snapshots = 0
        torn: list[int] = []
        for snapshot_id, expected in sorted(self.snapshots.items()):
            if snapshot_id > self.published_until or snapshot_id in self.elsewhere:
                continue
            counts = self._counts.get(snapshot_id)
            missing = expected.has_record if counts is None else expected.has_record & (counts == 0)
            too_old = missing & self._find_expired(snapshot_id, expected)
            missing &= ~too_old
            rows += int(expected.has_record.sum())
            snapshots += 1
            expired += int(too_old.sum())
            if self.is_compacted:
                replaced = missing if expected.stays is None else missing & ~expected.stays
                compacted += int(replaced.sum())
                missing &= ~replaced
            count = int(missing.sum())
            if count:
                lost += count
                if counts is not None and counts.any():
                    torn.append(snapshot_id)
                self._note(f"snapshot {snapshot_id} lacks {count} rows, the first with idx {int(missing.argmax())}")
        return LogFindings(
            records=self._records,
            rows=rows,
            snapshots=snapshots,
            lost=lost,
            duplicates=self._duplicates,
            disordered=self._disordered,
            foreign=self._foreign,
            torn=tuple(torn),
            compacted=compacted,
            expired=expired,
            earlier=self._earlier,
            examples=tuple(self._examples),
        )

    def _count(self, snapshot_id: int, records: FetchedRecords, chosen: Mask, indexes: npt.NDArray[np.int64]) -> Mask:
        """Counts the records of one snapshot: all rows, without those that it does not have."""
        expected = self.snapshots[snapshot_id]
        beyond = chosen & ((indexes < 0) | (indexes >= len(expected.has_record)))
        self._note_foreign(records, beyond, f"is of a row that snapshot {snapshot_id} does not have")
        mine = chosen & ~beyond
        counts = self._counts.setdefault(snapshot_id, np.zeros(len(expected.has_record), np.uint8))
        places, times = np.unique(indexes[mine], return_counts=True)
        again = np.where(counts[places] > 0, times, times - 1)
        counts[places] = np.minimum(counts[places] + times, _MOST)
        if again.any():
            self._duplicates += int(again.sum())
            first = int(places[again > 0][0])
            self._note(f"row {first} of snapshot {snapshot_id} is there more than once")
        return ~beyond

    def _follow(
        self,
        partition: int,
        records: FetchedRecords,
        rows: npt.NDArray[np.intp],
        numbers: npt.NDArray[np.int64],
        indexes: npt.NDArray[np.int64],
    ) -> None:
        """Checks the order of the records of one partition."""
        snapshots, places = numbers[rows], indexes[rows]
        last = self._lasts.get(partition)
        if last is not None:
            snapshots, places = np.insert(snapshots, 0, last[0]), np.insert(places, 0, last[1])
        # Equal ones are duplicates, and counted there.
        falls = (snapshots[1:] < snapshots[:-1]) | ((snapshots[1:] == snapshots[:-1]) & (places[1:] < places[:-1]))
        if falls.any():
            self._disordered += int(falls.sum())
            at = rows[int(falls.argmax()) + (1 if last is None else 0)]
            self._note(f"partition {partition} offset {records.offsets[at]} comes after a later row")
        newest = int(np.lexsort((places, snapshots))[-1])
        self._lasts[partition] = int(snapshots[newest]), int(places[newest])
        if last is None:
            self._firsts[partition] = int(snapshots[0]), int(places[0])

    def _find_expired(self, snapshot_id: int, expected: SnapshotRows) -> Mask:
        """The rows that may have been before the first retained record of their partition."""
        cut = [place for place, start in enumerate(self.starts) if start > 0 and place not in self._whole]
        is_old = np.zeros(len(expected.has_record), np.bool_)
        for partition in cut:
            first = self._firsts.get(partition)
            place = (
                len(is_old) if first is None or first[0] > snapshot_id else first[1] if first[0] == snapshot_id else 0
            )
            old = np.arange(len(is_old)) < place
            is_old |= old if expected.partitions is None else old & (expected.partitions == partition)
        return is_old

    def _note_foreign(self, records: FetchedRecords, chosen: Mask, what: str) -> None:
        if chosen.any():
            self._foreign += int(chosen.sum())
            at = int(chosen.argmax())
            self._note(f"partition {records.partitions[at]} offset {records.offsets[at]} {what}")

    def _note(self, example: str) -> None:
        if len(self._examples) < _EXAMPLES:
            self._examples.append(example)
