"""Joins small batches to a useful size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

_ROWS: Final = 1 << 15
_BYTES: Final = 8 << 20
"""The target size of joined batches; half of it is enough."""


def join_small_batches(
    batches: Iterable[pa.RecordBatch], *, max_rows: int = _ROWS, max_bytes: int = _BYTES
) -> Iterator[pa.RecordBatch]:
    """Joins successive small batches of one schema; the rows stay in order.

    A table of many small files is read in as many batches, and each costs its consumer more than its rows do.

    Args:
        batches: None of them empty.
        max_rows: Limit of a joined batch.
        max_bytes: Limit of a joined batch.
    """
    held: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        is_full = rows + batch.num_rows > max_rows or size_bytes + batch.nbytes > max_bytes
        if held and (is_full or batch.schema != held[0].schema):
            yield _join(held)
            held, rows, size_bytes = [], 0, 0
        held.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
    if held:
        yield _join(held)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
