"""Fetched records in columns: made from what a transport returns, joined, and selected. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.log.records import (
    ATTEMPT_HEADER,
    INDEX_HEADER,
    KIND_HEADER,
    SEQUENCE_HEADER,
    SNAPSHOT_HEADER,
    UUID_HEADER,
    FetchedRecords,
)

_NUMBER: Final = r"\A[0-9]{1,18}\z"
_ARROW_COLUMNS: Final = tuple(f.name for f in fields(FetchedRecords) if f.type == "pa.Array")


@dataclass(frozen=True)
class RawRecords:
    """Records as a client returns them: lists of the same length."""

    partitions: Sequence[int]
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Mapping[str, bytes]]


def to_fetched(raw: RawRecords) -> FetchedRecords:
    """The columns. A header of another program that should be a number and is none counts as missing."""
    headers = raw.headers
    return FetchedRecords(
        np.array(raw.partitions, np.int32),
        np.array(raw.offsets, np.int64),
        np.array(raw.timestamps_ms, np.int64),
        pa.array(raw.keys, pa.binary()),
        pa.array(raw.values, pa.binary()),
        pa.array([h.get(KIND_HEADER) for h in headers], pa.binary()),
        _to_numbers(pa.array([h.get(SNAPSHOT_HEADER) for h in headers], pa.binary())),
        pa.array([h.get(UUID_HEADER) for h in headers], pa.binary()),
        pa.array([h.get(ATTEMPT_HEADER) for h in headers], pa.binary()),
        _to_numbers(pa.array([h.get(INDEX_HEADER) for h in headers], pa.binary())),
        pa.array([h.get(SEQUENCE_HEADER) for h in headers], pa.binary()),
    )


def _to_numbers(digits: pa.Array) -> pa.Array:
    # 18 digits always fit into 64 bits.
    is_number = pc.match_substring_regex(digits, _NUMBER)
    return pc.if_else(is_number, digits, pa.scalar(None, pa.binary())).cast(pa.string()).cast(pa.int64())


def concat_fetched(parts: Sequence[FetchedRecords]) -> FetchedRecords:
    """Joins the parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return NO_RECORDS
    return _map_columns(lambda name: [getattr(part, name) for part in parts], pa.concat_arrays, np.concatenate)


def take_fetched(records: FetchedRecords, rows: np.ndarray[Any, Any] | slice) -> FetchedRecords:
    """Some rows: a slice, without copying, or those of a mask or of indexes."""
    if isinstance(rows, slice):
        start, stop, _ = rows.indices(len(records))
        size = max(0, stop - start)
        return _map_columns(
            lambda name: getattr(records, name), lambda a: a.slice(start, size), lambda a: a[start : start + size]
        )
    indexes = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
    taken = pa.array(indexes, pa.int64())
    return _map_columns(lambda name: getattr(records, name), lambda a: a.take(taken), lambda a: a[indexes])


def _map_columns(get: Any, of_arrow: Any, of_numpy: Any) -> FetchedRecords:
    columns = {
        f.name: (of_arrow if f.name in _ARROW_COLUMNS else of_numpy)(get(f.name)) for f in fields(FetchedRecords)
    }
    return FetchedRecords(**columns)


def _make_nothing() -> FetchedRecords:
    # Not by to_fetched: it makes arrays from Python's values, and pyarrow imports pandas for the first of them.
    texts, numbers = pa.nulls(0, pa.binary()), pa.nulls(0, pa.int64())
    places = (np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64))
    return FetchedRecords(*places, texts, texts, texts, numbers, texts, texts, numbers, texts)


NO_RECORDS: Final = _make_nothing()
"""A table of no records."""
