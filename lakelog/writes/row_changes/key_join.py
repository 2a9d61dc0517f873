"""Which rows of two relations have equal keys, in columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.format.keys.encoding import encode_rows
from lakelog.format.keys.ordering import is_integer_like, single_array

Indices: TypeAlias = npt.NDArray[np.int64]


class KeyJoin:
    """The keys of one relation, in which those of another one are found. Immutable.

    A NULL equals nothing, NaN equals NaN and 0.0 equals -0.0, as in SQL.

    Args:
        keys: The columns of the keys, of canonical single-valued types.
    """

    def __init__(self, keys: Sequence[pa.ChunkedArray]) -> None:
        values, valid = _to_values(keys)
        rows = np.flatnonzero(valid)
        codes = (
            values.take(pa.array(rows)).dictionary_encode() if len(rows) < len(values) else values.dictionary_encode()
        )
        self._distinct = codes.dictionary
        numbers = codes.indices.to_numpy(zero_copy_only=False)
        self.is_unique = len(self._distinct) == len(numbers)
        """Whether no key repeats."""
        order = np.argsort(numbers, kind="stable")
        # The rows of distinct key n are those from `_starts[n]` to before `_starts[n + 1]`.
        self._rows: Indices = rows[order]
        self._starts: Indices = np.searchsorted(numbers[order], np.arange(len(self._distinct) + 1))

    def find(self, keys: Sequence[pa.ChunkedArray]) -> tuple[Indices, Indices]:
        """Returns the pairs of rows with equal keys: positions in `keys`, rising, and in the relation of the join.

        Args:
            keys: Columns of the same types.
        """
        values, valid = _to_values(keys)
        found = pc.index_in(values, value_set=self._distinct)
        hit = np.asarray(found.is_valid()) & valid
        places = np.flatnonzero(hit)
        numbers = np.asarray(found.fill_null(0))[places]
        if self.is_unique:
            return places, self._rows[self._starts[numbers]]
        counts = self._starts[numbers + 1] - self._starts[numbers]
        ends = np.cumsum(counts)
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
        return np.repeat(places, counts), self._rows[np.repeat(self._starts[numbers], counts) + within]


def find_repeated(places: Indices) -> Indices:
    """The positions that occur more than once, each once. Pure."""
    values, counts = np.unique(places, return_counts=True)
    return values[counts > 1]


def _to_values(keys: Sequence[pa.ChunkedArray]) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """One value for each row, equal where the keys are, and which rows have no NULL."""
    arrays = [single_array(column) for column in keys]
    valid = np.ones(len(arrays[0]), bool)
    for array in arrays:
        if array.null_count:
            valid &= np.asarray(array.is_valid())
    data_type = arrays[0].type
    plain = is_integer_like(data_type) or pt.is_string(data_type) or pt.is_binary(data_type)
    return (arrays[0] if len(arrays) == 1 and plain else encode_rows(arrays)), valid
