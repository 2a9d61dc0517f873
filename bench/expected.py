"""What a table must hold, by a model that shares nothing with lakelog's merging, and digests that Spark makes too."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench.measure import WrongAnswerError
from bench.shapes import Q1_INTEGERS, order_free_hash

Q1_COLUMNS: Final = ("id", "name", *[f"v{i}" for i in range(Q1_INTEGERS)], "ts")
_NAME: Final = "name"

Digest = tuple[int, ...]
"""A row count, then for each column the exclusive or of its values, or of a string the sum of its bytes' number."""


class Q1Model:
    """Q1 rows by key, the keys being `0 .. n - 1`, of which all are there once `apply` was called with each.

    Args:
        keys: n.
    """

    def __init__(self, keys: int) -> None:
        self._columns = {name: np.zeros(keys, np.int64) for name in Q1_COLUMNS}
        self._columns["id"] = np.arange(keys)
        self._versions = np.zeros(keys, np.int64)

    def __len__(self) -> int:
        return len(self._versions)

    def apply(self, rows: pa.Table) -> None:
        """Upserts rows in their order: the last row of a key stays."""
        ids = rows.column("id").to_numpy()
        # The last of each key, found backwards.
        unique, backwards = np.unique(ids[::-1], return_index=True)
        last = len(ids) - 1 - backwards
        for name in Q1_COLUMNS[1:]:
            self._columns[name][unique] = _as_integers(rows.column(name))[last]
        np.add.at(self._versions, ids, 1)

    @property
    def present(self) -> int:
        """How many keys there are."""
        return int(np.count_nonzero(self._versions))

    def has(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of some keys are there."""
        return self._versions[ids] > 0

    def versions_of(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How often each of some keys was upserted."""
        return self._versions[ids]

    def digest(self, columns: tuple[str, ...], first: int = 0, last: int | None = None) -> Digest:
        """Of the rows whose key is from `first` to `last`, included."""
        part = slice(first, None if last is None else last + 1)
        values = [self._columns[name][part] for name in columns]
        return (
            len(self._columns["id"][part]),
            *[
                int(each.sum() if name == _NAME else np.bitwise_xor.reduce(each))
                for name, each in zip(columns, values, strict=True)
            ],
        )

    def versions(self, first: int = 0, last: int | None = None) -> int:
        """How many rows were upserted with a key from `first` to `last`, included."""
        return int(self._versions[first : None if last is None else last + 1].sum())

    def rows(self, columns: tuple[str, ...]) -> pa.Table:
        """All rows, some columns (`name` is not possible, of which only lengths are known), as 64-bit integers."""
        return pa.table({name: self._columns[name] for name in columns if name != _NAME})


def check_rows(what: str, found: pa.Table, model: Q1Model, columns: tuple[str, ...]) -> bool:
    """True: these columns of some rows, in any order, are those of the model.

    Raises:
        WrongAnswerError: They are not.
    """
    expected = model.rows(columns)
    return check_equal(
        what,
        (found.num_rows, order_free_hash(found.select(expected.column_names))),
        (expected.num_rows, order_free_hash(expected)),
    )


def digest_sql(columns: tuple[str, ...]) -> list[str]:
    """Aggregates by which Spark makes the digest; they read all of each column."""
    return ["count(1)", *[_aggregate(name) for name in columns]]


def check_equal(what: str, found: object, expected: object) -> bool:
    """True.

    Raises:
        WrongAnswerError: They differ.
    """
    if found != expected:
        raise WrongAnswerError(f"{what}: found {found!r}, not {expected!r}")
    return True


def _aggregate(name: str) -> str:
    if name == _NAME:
        return "sum(octet_length(name))"
    return f"bit_xor({f'unix_micros({name})' if name == 'ts' else name})"


def _as_integers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    if pa.types.is_string(column.type):
        return pc.binary_length(column).cast(pa.int64()).to_numpy()
    return column.cast(pa.int64()).to_numpy()
