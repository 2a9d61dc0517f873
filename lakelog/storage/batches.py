"""Batches of a size that is worth handing on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

_ROWS: Final = 1 << 15
_BYTES: Final = 8 << 20
"""What small batches are joined up to; half of it is enough."""


def join_small_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Joins small batches that follow each other; the rows stay in their order.

    A table of many small files is read in as many batches, and each costs whoever takes it more than its rows do.

    Args:
        batches: Of one schema, none of them empty.
    """
    held: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        if held and (rows + batch.num_rows > _ROWS or size_bytes + batch.nbytes > _BYTES):
            yield _join(held)
            held, rows, size_bytes = [], 0, 0
        held.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
    if held:
        yield _join(held)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
