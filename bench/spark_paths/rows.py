"""The Q1 rows, their bucket function in numpy, and order-free sums by which every run checks its answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

VALUES = [f"v{i}" for i in range(8)]
COLUMNS = ["id", "name", *VALUES, "ts"]
DDL = "id bigint, name string, " + ", ".join(f"{v} bigint" for v in VALUES) + ", ts timestamp"
ROW_GROUP_ROWS = 131_072
# A dictionary of values that hardly repeat is built, overflows and is thrown away: it halves the writer's speed.
WRITE_OPTIONS = {"compression": "zstd", "compression_level": 1, "use_dictionary": False, "store_schema": False}

Longs = npt.NDArray[np.int64]


def bucket_of(keys: Longs, buckets: int) -> Longs:
    """Spark's `pmod(hash(key), buckets)` for one bigint column (Murmur3 x86_32, seed 42)."""
    bits = keys.view(np.uint64)
    h = np.full(len(keys), 42, np.uint32)
    for word in ((bits & np.uint64(0xFFFFFFFF)).astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)):
        k = word * np.uint32(0xCC9E2D51)
        k = ((k << np.uint32(15)) | (k >> np.uint32(17))) * np.uint32(0x1B873593)
        h ^= k
        h = ((h << np.uint32(13)) | (h >> np.uint32(19))) * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= np.uint32(8)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    return h.view(np.int32).astype(np.int64) % buckets


def q1_table(ids: Longs, seed: int) -> pa.Table:
    """Q1 rows (about 163 bytes each) for the given ids: a random name of 64 to 95 letters, 8 random bigints, a time."""
    rng = np.random.default_rng(seed)
    n = len(ids)
    offsets = np.zeros(n + 1, np.int32)
    np.cumsum(rng.integers(64, 96, n, dtype=np.int32), out=offsets[1:])
    letters = rng.integers(97, 123, int(offsets[-1]), dtype=np.uint8)
    names = pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(letters))
    longs = [pa.array(rng.integers(-(2**62), 2**62, n)) for _ in VALUES]
    times = pa.array(rng.integers(1_600_000_000_000_000, 1_700_000_000_000_000, n), pa.timestamp("us", tz="UTC"))
    return pa.table([pa.array(ids), names, *longs, times], names=COLUMNS)


@dataclass(frozen=True, slots=True)
class Digest:
    """Row count and the xor of each 64-bit column: equal for equal bags of rows, whatever their order."""

    rows: int
    xors: tuple[int, ...]


def digest_sql(columns: list[str]) -> list[str]:
    """Aggregates that read every given column and yield a Digest (a string column: its largest value)."""
    return ["count(1)"] + [
        f"max({c})" if c == "name" else f"bit_xor(unix_micros({c}))" if c == "ts" else f"bit_xor({c})" for c in columns
    ]


def digest_of(table: pa.Table) -> Digest:
    """The Digest of a table's 64-bit columns."""
    xors = [int(np.bitwise_xor.reduce(table[c].cast(pa.int64()).to_numpy())) for c in COLUMNS if c != "name"]
    return Digest(table.num_rows, tuple(xors))


def write_run(table: pa.Table, path: Path) -> Path:
    """Write one sorted run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=ROW_GROUP_ROWS, **WRITE_OPTIONS)
    return path
