"""Records as a reader of the log would hand them out, made of encoded ones or by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lakelog.format.types.rowkind import RowKind
from lakelog.log.records import EncodedRecords, FetchedRecords


def to_fetched(records: EncodedRecords) -> FetchedRecords:
    return make_fetched(
        records.values.to_pylist(),
        None if records.keys is None else records.keys.to_pylist(),
        [RowKind(kind).text.encode() for kind in records.kinds.tolist()],
        None if records.sequences is None else records.sequences.to_pylist(),
    )


def make_fetched(
    values: list[Any], keys: list[Any] | None = None, kinds: list[Any] | None = None, sequences: list[Any] | None = None
) -> FetchedRecords:
    count = len(values)

    def to_column(given: list[Any] | None, data_type: pa.DataType) -> pa.Array:
        return pa.nulls(count, data_type) if given is None else pa.array(given, data_type)

    return FetchedRecords(
        partitions=np.full(count, 3, dtype=np.int32),
        offsets=np.arange(100, 100 + count, dtype=np.int64),
        timestamps_ms=np.zeros(count, dtype=np.int64),
        keys=to_column(keys, pa.binary()),
        values=to_column(values, pa.binary()),
        kinds=to_column(kinds, pa.binary()),
        snapshot_ids=pa.nulls(count, pa.int64()),
        uuids=pa.nulls(count, pa.binary()),
        attempts=pa.nulls(count, pa.binary()),
        indexes=pa.nulls(count, pa.int64()),
        sequences=to_column(sequences, pa.binary()),
    )
