"""The approximate number of bytes of a value in memory: what key columns cost to read and merge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from lakelog.format.types.defaults import INITIAL_DEFAULT_KEY

ASSUMED_TEXT_BYTES: Final = 40
"""The size of a value whose type does not define its length."""


def row_bytes(schema: pa.Schema, names: Iterable[str]) -> int:
    """The approximate size of a row in some columns, in bytes; a column can be all its default. Pure."""
    return sum(_width(schema.field(name)) for name in names)


def _width(field: pa.Field) -> int:
    try:
        return max(1, int(field.type.bit_width) // 8)
    except ValueError:
        return max(ASSUMED_TEXT_BYTES, len((field.metadata or {}).get(INITIAL_DEFAULT_KEY, b"")))
