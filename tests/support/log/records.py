"""Records as a publisher would send them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakelog.log.records import EncodedRecords


def make_records(partition: int, first: int, rows: int) -> EncodedRecords:
    indexes = np.arange(first, first + rows, dtype=np.int64)
    values = pa.array([str(index).encode() for index in indexes.tolist()], pa.binary())
    return EncodedRecords(partition, values, values, np.zeros(rows, np.int8), indexes)
