"""How many bytes a value takes in memory, about: what columns of keys cost to read and merge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

ASSUMED_TEXT_BYTES: Final = 40
"""Of a value whose length its type does not tell."""


def row_bytes(schema: pa.Schema, names: Iterable[str]) -> int:
    """About how many bytes a row takes in some columns. Pure."""
    return sum(_width(schema.field(name).type) for name in names)


def _width(data_type: pa.DataType) -> int:
    try:
        return max(1, int(data_type.bit_width) // 8)
    except ValueError:
        return ASSUMED_TEXT_BYTES
