"""Row kinds: what a row does to its key, as text (`+I -U +U -D`) and as the stored code."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import DataCorrupted, InvalidArgument

ROW_KIND_COLUMN: Final = "_row_kind"


class RowKind(enum.IntEnum):
    """The four kinds; the numbers are stored in files and never change."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def text(self) -> str:
        """The kind as users write it: `+I`, `-U`, `+U` or `-D`."""
        return _TEXTS[self]


_TEXTS: Final = ("+I", "-U", "+U", "-D")
_RETRACTS: Final = np.array([False, True, False, True])


def encode_kinds(kinds: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns the codes of kinds given as text. Pure; linear without a loop over rows.

    Args:
        kinds: Strings (any width) or a dictionary of strings, each one of `+I -U +U -D`.

    Returns:
        Int8 array of the same length without NULLs.

    Raises:
        InvalidArgument: Another type, or a value that is no kind (NULL included); names the first one and its row.
    """
    values = _single_array(kinds)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not (
        pa.types.is_string(values.type) or pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type)
    ):
        raise InvalidArgument(
            f"Column '{ROW_KIND_COLUMN}' has type {values.type}; it must hold strings, each one of {', '.join(_TEXTS)}."
        )
    codes = pc.index_in(values.cast(pa.string()), value_set=pa.array(_TEXTS))
    if codes.null_count:
        row = int(np.flatnonzero(codes.is_null().to_numpy(zero_copy_only=False))[0])
        value = values[row].as_py()
        raise InvalidArgument(
            f"Column '{ROW_KIND_COLUMN}' has {value if value is None else repr(value[:40])} in row {row}; "
            f"a row kind is one of {', '.join(_TEXTS)}.",
            metadata={"column": ROW_KIND_COLUMN, "row": str(row)},
        )
    return codes.cast(pa.int8())


def decode_kinds(codes: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns the text of stored codes, the inverse of `encode_kinds`. Pure.

    Args:
        codes: Int8 array of codes.

    Raises:
        DataCorrupted: A code that is none of the four, or NULL: the file with it is damaged.
    """
    values = _single_array(codes)
    numbers = _codes_to_numpy(values)
    return pa.array(_TEXTS).take(pa.array(numbers))


def concat_kinds(
    parts: Sequence[tuple[pa.Table, npt.NDArray[np.int8] | None]],
) -> npt.NDArray[np.int8] | None:
    """The codes of rows that come in parts; None: all are +I. Pure."""
    if all(kinds is None for _, kinds in parts):
        return None
    return np.concatenate([np.zeros(table.num_rows, np.int8) if kinds is None else kinds for table, kinds in parts])


def is_retract(codes: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Returns for each code whether the row deletes (`-U`, `-D`) instead of adding.

    Raises:
        DataCorrupted: As `decode_kinds`.
    """
    return _RETRACTS[_codes_to_numpy(_single_array(codes))]


def _codes_to_numpy(values: pa.Array) -> npt.NDArray[np.int8]:
    if values.null_count:
        raise DataCorrupted(f"Column '{ROW_KIND_COLUMN}' of a data file holds NULL; the file is damaged.")
    numbers: npt.NDArray[np.int8] = values.cast(pa.int8()).to_numpy()
    if len(numbers) and (numbers.min() < 0 or numbers.max() > RowKind.DELETE):
        wrong = int(numbers[(numbers < 0) | (numbers > RowKind.DELETE)][0])
        raise DataCorrupted(f"Column '{ROW_KIND_COLUMN}' of a data file holds the code {wrong}; the file is damaged.")
    return numbers


def _single_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
