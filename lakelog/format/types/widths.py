"""The approximate number of bytes of a value in memory: what key columns cost to read and merge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

ASSUMED_TEXT_BYTES: Final = 40
"""The size of a value whose type does not define its length."""


def row_bytes(schema: pa.Schema, names: Iterable[str]) -> int:
    """The approximate size of a row in some columns, in bytes. Pure."""
    return sum(_width(schema.field(name).type) for name in names)


def _width(data_type: pa.DataType) -> int:
    try:
        return max(1, int(data_type.bit_width) // 8)
    except ValueError:
        return ASSUMED_TEXT_BYTES
