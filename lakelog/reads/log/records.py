"""Questions about log records that all readers by snapshot share."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import HistoryDiverged
from lakelog.log.records import FetchedRecords

PAUSES_S: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Pauses between polls for a snapshot to be published: mostly it takes some milliseconds."""

NO_SNAPSHOT: Final = -1


def to_snapshot_ids(records: FetchedRecords) -> npt.NDArray[np.int64]:
    """The snapshot of each record; `NO_SNAPSHOT`: sent before its commit, or not from this table. Pure."""
    ids: npt.NDArray[np.int64] = records.snapshot_ids.fill_null(NO_SNAPSHOT).to_numpy(zero_copy_only=False)
    return ids


def check_history(records: FetchedRecords, uuids: pa.Array | pa.Scalar, topic: str) -> None:
    """Checks that records belong to the snapshots that the table has. Pure.

    Args:
        records: Records that each have a snapshot.
        uuids: Binary: the metastore's uuid of each record's snapshot, or one for all records.
        topic: Their topic, for messages.

    Raises:
        HistoryDiverged: A record belongs to another snapshot with the same id.
    """
    is_same = pc.equal(records.uuids, uuids).fill_null(False)
    if pc.all(is_same).as_py():
        return
    snapshot_id = records.snapshot_ids[pc.index(is_same, False).as_py()].as_py()
    raise HistoryDiverged(
        f"The log {topic} has records of a snapshot {snapshot_id} that is another than the table's: the metastore was"
        " restored to an earlier state. Stop, compare what was read with the table, and read it anew from there, in"
        " Spark with a new checkpoint; `lakelog log restart` begins the log anew.",
        metadata={"topic": topic, "snapshot_id": str(snapshot_id)},
    )
