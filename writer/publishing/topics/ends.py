"""Where snapshots end in a topic that were published but never reported (semantics 4.5).

A publisher reports after each transaction. If it dies in between, the metastore does not know where the snapshots of
the transaction end. The next publisher finds that out: the position of the transaction names the last of them, and the
records of the topic say which snapshot each is of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import Unavailable
from lakelog.format.log.state import LogInfo, SnapshotOffsets
from lakelog.format.tables.snapshot import LogContent, Snapshot
from lakelog.log.protocol import LogReader
from lakelog.log.records import LogSnapshot

from ..recovery import RecoveryFacts

_FETCHED: Final = 20_000
"""Records at a time."""

_FETCH_S: Final = 0.5
_STALL_S: Final = 30.0
"""How long brokers may return none of the records that they say they have."""

_MAX_RECORDS: Final = 1_000_000
"""A transaction has fewer. There are more only after the metastore's database was set back, and reading all of them
could take longer than a step of a publisher may."""

_MAX_SNAPSHOTS: Final = 10_000
"""As many as one report takes."""


def find_ends(
    info: LogInfo,
    known: RecoveryFacts,
    last: LogSnapshot,
    begins: Sequence[int],
    metastore: Metastore,
    reader: LogReader,
    clock: Clock,
) -> list[SnapshotOffsets]:
    """Where the snapshots after the reported ones end, up to `last`, by reading what the topic holds of them.

    Args:
        info: The log.
        known: The facts after a restart.
        last: The last completely published snapshot.
        begins: Where the generation begins, if the metastore does not know yet.
        metastore: Knows the snapshots.
        reader: Reads the topic; it is assigned anew.
        clock: For measuring.

    Returns:
        The end of each, in rising order. If it cannot be known of all, only that of `last`, which is the topic's end.

    Raises:
        Unavailable: The brokers return nothing.
    """
    first = known.mirror.snapshot_id + 1
    if last.snapshot_id < first:
        return []
    only_last = [SnapshotOffsets(last.snapshot_id, last.snapshot_uuid, known.ends)]
    if last.snapshot_id - first >= _MAX_SNAPSHOTS:
        return only_last
    snapshots = _list_snapshots(metastore, info, first, last.snapshot_id)
    reported = known.mirror.offsets or begins
    starts = np.array([reported[p] if p < len(reported) else 0 for p in range(len(known.ends))], np.int64)
    ends = np.array(known.ends, np.int64)
    is_cut = bool((np.array(known.starts, np.int64) > starts).any())
    if len(snapshots) <= last.snapshot_id - first or is_cut or int((ends - starts).sum()) > _MAX_RECORDS:
        return only_last
    found = np.zeros((len(snapshots) + 1, len(ends)), np.int64)
    found[0] = starts
    if any(_has_records(each) for each in snapshots):
        _read(info, known.mirror.snapshot_id, starts, ends, found, reader, clock)
    for place, snapshot in enumerate(snapshots, 1):
        for partition, offset in (snapshot.sent_offsets or {}).items():
            found[place, partition] = max(found[place, partition], offset)
    by_snapshot = np.maximum.accumulate(found)[1:].tolist()
    return [
        SnapshotOffsets(each.snapshot_id, each.snapshot_uuid, tuple(offsets))
        for each, offsets in zip(snapshots, by_snapshot, strict=True)
    ]


def _list_snapshots(metastore: Metastore, info: LogInfo, first: int, last: int) -> list[Snapshot]:
    """The snapshots from `first` to `last`, as far as they are retained."""
    found: list[Snapshot] = []
    while first <= last:
        page = metastore.list_snapshots(info.table_uuid, after=first - 1, until=last).snapshots
        found += page
        if not page:
            break
        first = page[-1].snapshot_id + 1
    return found


def _has_records(snapshot: Snapshot) -> bool:
    """Whether the publisher sends records of a snapshot: those that were sent before its commit are known by it."""
    return snapshot.log is not LogContent.NONE and snapshot.sent_offsets is None


def _read(
    info: LogInfo,
    reported_id: int,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    found: npt.NDArray[np.int64],
    reader: LogReader,
    clock: Clock,
) -> None:
    """Writes into `found` the offset after the last record of each snapshot, by its place after the reported one."""
    left = {p: int(start) for p, start in enumerate(starts) if start < ends[p]}
    reader.assign(left)
    since_s = clock.monotonic_s()
    while left:
        records = reader.fetch(_FETCHED, _FETCH_S)
        places = records.snapshot_ids.fill_null(0).to_numpy(zero_copy_only=False) - reported_id
        is_wanted = (places > 0) & (places < len(found))
        np.maximum.at(found, (places[is_wanted], records.partitions[is_wanted]), records.offsets[is_wanted] + 1)
        before, positions = left, reader.positions()
        left = {p: positions[p] for p in before if positions[p] < ends[p]}
        if left != before:
            since_s = clock.monotonic_s()
        elif clock.monotonic_s() - since_s > _STALL_S:
            raise Unavailable(
                f"Where the last snapshots of {info.name} end in the topic {info.topic} is not known: the brokers have "
                f"handed out nothing for {_STALL_S:g} s. Look after them."
            )
