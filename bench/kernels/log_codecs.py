"""Cost per row of writing and reading records of the log, and the ways that were looked at.

Run `python -m bench.kernels.log_codecs`: Q1 rows (about 163 bytes, 458 as a message), one thread, the best of three.
Prints thousands of rows a second.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from bench.shapes import q1
from lakelog.format.tables.table import TableName
from lakelog.format.types.rowkind import RowKind
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.log.codecs.codec import EncodedChunk, LogCodec, LogForm
from lakelog.log.records import EncodedRecords, FetchedRecords

ROWS = 200_000


def make_codec(value_format: str, is_upsert: bool = False) -> LogCodec:
    schema = TableSchema(0, assign_field_ids(q1(np.arange(1), 1).schema), ("id",))
    return LogCodec(schema, TableName("bench", "orders"), LogForm(value_format=value_format, is_upsert=is_upsert))


def encode(codec: LogCodec, rows: pa.Table, kinds: np.ndarray) -> EncodedChunk:
    return codec.encode(rows, kinds, 0, partition=0, snapshot_id=5, ts_ms=1_700_000_000_000, bucket=0, is_last=True)


def to_fetched(records: EncodedRecords) -> FetchedRecords:
    count = len(records)
    nothing, numbers = pa.nulls(count, pa.binary()), np.arange(count)
    return FetchedRecords(
        partitions=np.zeros(count, dtype=np.int32),
        offsets=numbers,
        timestamps_ms=numbers,
        keys=nothing if records.keys is None else records.keys,
        values=records.values,
        kinds=pa.array([kind.text.encode() for kind in RowKind]).take(pa.array(records.kinds)),
        snapshot_ids=pa.nulls(count, pa.int64()),
        uuids=nothing,
        attempts=nothing,
        indexes=pa.nulls(count, pa.int64()),
        sequences=nothing,
    )


def encode_one_by_one(rows: pa.Table) -> list[bytes]:
    """By Python's own JSON: what was rejected."""
    source = {"db": "bench", "table": "orders", "snapshot": 5, "bucket": 0}
    found = []
    for row in rows.to_pylist():
        row["ts"] = row["ts"].isoformat()
        found.append(json.dumps({"before": None, "after": row, "source": source, "op": "c", "ts_ms": 1}).encode())
    return found


def measure(name: str, work: Callable[[], object], rows: int) -> None:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    print(f"{name:48} {rows / best / 1000:8.0f}")


def main() -> None:
    rows = q1(np.arange(ROWS), 1)
    inserts = np.zeros(ROWS, dtype=np.int8)
    pairs, kinds = q1(np.arange(ROWS) // 2, 1), np.tile(np.array([1, 2], dtype=np.int8), ROWS // 2)
    measure("debezium-json, row by row", lambda: encode_one_by_one(rows), ROWS)
    for value_format in ("debezium-json", "json", "avro"):
        codec = make_codec(value_format)
        measure(f"{value_format}, +I", partial(encode, codec, rows, inserts), ROWS)
        measure(f"{value_format}, -U +U", partial(encode, codec, pairs, kinds), ROWS)
        fetched = to_fetched(encode(codec, rows, inserts).records)
        measure(f"{value_format}, read", partial(codec.decode, fetched, topic="t"), ROWS)
    codec = make_codec("debezium-json")
    measure("sizes of rows", lambda: codec.check_row_sizes(rows, 1 << 20), ROWS)


if __name__ == "__main__":
    main()
