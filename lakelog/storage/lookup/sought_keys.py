"""Keys to look up in many files, with their search data computed once for all of these."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.format.keys.bloom_filter import KeyHashes, hash_codes
from lakelog.format.keys.codes import Codes, are_exact, find_key_codes

RowIndices = npt.NDArray[np.int64]


class SoughtKeys:
    """Keys to look for. For one thread at a time.

    Args:
        table: The key's columns, with the types of local copies, without NULLs.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table: Final = table
        self.are_exact: Final = are_exact(table.schema.types)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def codes(self) -> Codes:
        """One code per key."""
        return find_key_codes(self.table.columns)

    @cached_property
    def hashes(self) -> KeyHashes:
        """The hashes for filters."""
        return hash_codes(self.codes)

    def take(self, places: RowIndices) -> pa.Table:
        """Some of the keys, given by rising indices."""
        return self.table if len(places) == len(self) else self.table.take(pa.array(places))
