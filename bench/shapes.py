"""The data that is measured: fixed shapes, made from a seed, in columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakelog.format.keys.bucket import hash_columns

_ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", dtype=np.uint8)
Q1_INTEGERS = 8


def q1(ids: np.ndarray, seed: int) -> pa.Table:
    """Q1 rows, about 163 bytes: `id bigint, name string` of 64 to 95 bytes, `v0 .. v7` random bigints, `ts`."""
    rng = np.random.default_rng(seed)
    count = len(ids)
    columns: dict[str, pa.Array] = {"id": pa.array(ids), "name": random_strings(rng, count, 64, 95)}
    for i in range(Q1_INTEGERS):
        columns[f"v{i}"] = pa.array(rng.integers(-(2**62), 2**62, count))
    stamps = 1_700_000_000_000_000 + rng.integers(0, 10**13, count)
    columns["ts"] = pa.array(stamps).cast(pa.timestamp("us", "UTC"))
    return pa.table(columns, schema=q1_schema())


def q1_schema() -> pa.Schema:
    """The schema of `q1`; its key is not null."""
    integers = [pa.field(f"v{i}", pa.int64()) for i in range(Q1_INTEGERS)]
    return pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("name", pa.string()),
            *integers,
            pa.field("ts", pa.timestamp("us", "UTC")),
        ]
    )


def narrow(ids: np.ndarray, seed: int) -> pa.Table:
    """Rows of about 40 bytes: `id bigint, a bigint, b double, c int, d date`."""
    rng = np.random.default_rng(seed)
    count = len(ids)
    return pa.table(
        {
            "id": pa.array(ids),
            "a": pa.array(rng.integers(0, 1000, count)),
            "b": pa.array(rng.random(count)),
            "c": pa.array(rng.integers(0, 2**31 - 1, count).astype(np.int32)),
            "d": pa.array(rng.integers(15_000, 20_000, count).astype(np.int32)).cast(pa.date32()),
        },
        schema=pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                pa.field("a", pa.int64()),
                pa.field("b", pa.float64()),
                pa.field("c", pa.int32()),
                pa.field("d", pa.date32()),
            ]
        ),
    )


def random_strings(rng: np.random.Generator, count: int, shortest: int, longest: int) -> pa.Array:
    """Random strings of ASCII letters and digits, lengths uniform between both bounds, included."""
    lengths = rng.integers(shortest, longest + 1, count, dtype=np.int64)
    offsets = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    letters = _ALPHABET[rng.integers(0, len(_ALPHABET), int(offsets[-1]), dtype=np.uint8)]
    large = pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters))
    return large.cast(pa.string())


def uniform_ids(rng: np.random.Generator, count: int, space: int) -> np.ndarray:
    """`count` distinct keys below `space`, in random order."""
    return rng.choice(space, size=count, replace=False)


def zipf_ids(rng: np.random.Generator, count: int, space: int, exponent: float = 1.1) -> np.ndarray:
    """`count` keys below `space`, repeated as Zipf's law has it; frequent keys are spread over the space."""
    ranks = (rng.zipf(exponent, size=count) - 1) % space
    return (ranks * 2_654_435_761) % space


def order_free_hash(data: pa.Table) -> int:
    """A 64-bit number that is the same for the same rows in any order."""
    if data.num_rows == 0:
        return 0
    names = sorted(data.column_names)
    columns = [_hashable(data.column(name)) for name in names]
    forward = hash_columns(columns).astype(np.uint32).astype(np.uint64)
    backward = hash_columns(columns[::-1]).astype(np.uint32).astype(np.uint64)
    mixed = (forward << np.uint64(32) | backward) * np.uint64(0x9E3779B97F4A7C15)
    return int((mixed ^ (mixed >> np.uint64(29))).sum(dtype=np.uint64))


def _hashable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.int64()) if pa.types.is_temporal(column.type) else column
