"""What all who read a table's log snapshot by snapshot ask of its records."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import HistoryDiverged
from lakelog.log.records import FetchedRecords

PAUSES_S: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Between questions whether a snapshot is published by now: mostly it is within some milliseconds."""

NO_SNAPSHOT: Final = -1


def to_snapshot_ids(records: FetchedRecords) -> npt.NDArray[np.int64]:
    """The snapshot of each record; `NO_SNAPSHOT`: it was sent before its commit, or is somebody else's. Pure."""
    ids: npt.NDArray[np.int64] = records.snapshot_ids.fill_null(NO_SNAPSHOT).to_numpy(zero_copy_only=False)
    return ids


def check_history(records: FetchedRecords, uuids: pa.Array | pa.Scalar, topic: str) -> None:
    """Checks that records are of the snapshots that the table has. Pure.

    Args:
        records: Each of a snapshot.
        uuids: Binary: that of its snapshot for each record, or one for all, as the metastore has them.
        topic: Where they stand, for messages.

    Raises:
        HistoryDiverged: One is of another snapshot of the same number.
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
