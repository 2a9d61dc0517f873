"""Decides how many rows of a row group are decoded at once, so that any file is read within a budget.

Objectives, which conflict: memory is bounded for every file, from any writer; ordinary files are read at full speed;
values of tens of megabytes are legal and are read.

1. Only the headers of pages count (`page_headers.py`); sizes in a footer are not trusted.
2. A page is unpacked as a whole, so a page that is too large is refused.
3. A few bytes can name a large value of a dictionary thousands of times. Where that could exceed the budget, the column
   is read as a dictionary, so that the size of every row is known before its values are copied.
4. Only decoding shows how many values a row of a nested column has. Such columns are read with few rows at once if all
   of their values together are too large, and refused if one row could exceed the limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types as pt

from lakelog.storage.parquet.pages.page_headers import ChunkPages, Page

DECODED_BYTES: Final = 64 << 20
"""Bytes of Arrow memory that are decoded at once: ordinary row groups have at most half of it."""

LARGEST_DECODED_BYTES: Final = 512 << 20
"""The most bytes of a single row with the pages that it is in, and of the nested values of a row group."""

_OFFSET_BYTES: Final = 4
_LEVEL_BYTES: Final = 8
"""Extra bytes of a nested value: its depth and the start of its row, in a buffer that grows by doubling."""

_VIEW_BYTES: Final = 16
"""Extra bytes of a text while it is decoded."""

_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}

RowBytes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Leaf:
    """A single-valued column of a file, and its pages in a row group."""

    column: pq.ColumnSchema
    pages: ChunkPages

    @property
    def path(self) -> str:
        """Its path in the file."""
        return str(self.column.path)

    @cached_property
    def is_nested(self) -> bool:
        """Whether a row can have several values."""
        return bool(self.column.max_repetition_level > 0)

    @cached_property
    def is_text(self) -> bool:
        """Whether values can have any length."""
        return bool(self.column.physical_type == "BYTE_ARRAY")

    @cached_property
    def width(self) -> int:
        """The size of a value, if its type defines the size."""
        kind = self.column.physical_type
        # An Arrow decimal is wider than its number in the file.
        return max(16, self.column.length) if kind == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(kind, 16)

    @cached_property
    def page_bytes(self) -> int:
        """Bytes in memory while its rows are decoded: a page, and the dictionary as stored, as read, as values."""
        return self.pages.largest_bytes + 3 * self.pages.dictionary_bytes + _VIEW_BYTES * self.pages.dictionary_count


@dataclass(frozen=True)
class Decoding:
    """How a row group is decoded.

    Args:
        rows: How many rows at once, at least 1.
        dictionaries: Paths of the columns that are read as dictionaries.
    """

    rows: int
    dictionaries: tuple[str, ...] = ()


class TooLarge(ValueError):
    """A row cannot be decoded within the limit."""


def plan_decoding(leaves: Sequence[Leaf], row_count: int, most_rows: int, budget_bytes: int) -> Decoding:
    """Decides how to decode columns of a row group. Pure.

    Args:
        leaves: The columns' parts that are read.
        row_count: The rows of the row group, as the footer says.
        most_rows: The most rows to decode at once.
        budget_bytes: About how much Arrow memory rows that are decoded at once can take.

    Raises:
        ValueError: The pages contradict the footer or themselves.
        TooLarge: A row, with everything else in memory for it, can take more than `LARGEST_DECODED_BYTES`.
    """
    for leaf in leaves:
        _check(leaf, row_count)
    _check_largest("pages", [(leaf, leaf.page_bytes) for leaf in leaves])
    rows = max(1, min(most_rows, row_count))
    dense = [_dense_bytes(leaf, rows) for leaf in leaves]
    if sum(dense) <= budget_bytes:
        return Decoding(rows)
    share = budget_bytes // len(leaves)
    as_dictionaries = {
        number
        for number, leaf in enumerate(leaves)
        if leaf.is_text and leaf.pages.has_indices and leaf.pages.dictionary_count and dense[number] > share
    }
    nested = [
        (leaf, _nested_bytes(leaf, as_dictionary=number in as_dictionaries))
        for number, leaf in enumerate(leaves)
        if leaf.is_nested
    ]
    _check_largest("nested values", nested)
    whole = sum(size_bytes for _, size_bytes in nested)
    if whole > budget_bytes:
        # Rows can differ much, but all of them together stay within the limit.
        rows = max(1, min(rows, row_count * budget_bytes // whole))
    flat = [(leaf, number in as_dictionaries) for number, leaf in enumerate(leaves) if not leaf.is_nested]
    per_row = sum(_flat_row_bytes(leaf, is_index) for leaf, is_index in flat)
    rows = max(1, min(rows, budget_bytes // max(1, per_row)))
    stored = [leaf.pages.pages for leaf, is_index in flat if leaf.is_text and not is_index]
    large = [pages for pages in stored if sum(page.size_bytes for page in pages) > share]
    if large:
        rows = _fit_rows(large, rows, budget_bytes)
    return Decoding(rows, tuple(leaves[number].path for number in sorted(as_dictionaries)))


def _check(leaf: Leaf, row_count: int) -> None:
    pages = leaf.pages
    if pages.value_count < row_count or (pages.value_count > row_count and not leaf.is_nested):
        raise ValueError(
            f"the pages of column '{_shown(leaf)}' have {pages.value_count} values for the {row_count} rows of their "
            "row group"
        )
    least = _OFFSET_BYTES if leaf.is_text else max(1, leaf.column.length or 0)
    if pages.dictionary_count * least > pages.dictionary_bytes:
        raise ValueError(
            f"the dictionary of column '{_shown(leaf)}' claims {pages.dictionary_count} values in "
            f"{pages.dictionary_bytes} bytes"
        )


def _check_largest(what: str, sizes: Sequence[tuple[Leaf, int]]) -> None:
    total = sum([size_bytes for _, size_bytes in sizes])
    if total > LARGEST_DECODED_BYTES:
        leaf, most = max(sizes, key=lambda each: each[1])
        raise TooLarge(
            f"the {what} of its columns may take {total} bytes of memory, {most} of them for column '{_shown(leaf)}', "
            f"and at most {LARGEST_DECODED_BYTES} are used"
        )


def _dense_bytes(leaf: Leaf, rows: int) -> int:
    """The most bytes that this many rows take as values."""
    count = leaf.pages.value_count if leaf.is_nested else rows
    levels = _LEVEL_BYTES * count if leaf.is_nested else 0
    if not leaf.is_text:
        return levels + count * leaf.width
    longest = leaf.pages.dictionary_bytes if leaf.pages.has_indices else 0
    if leaf.pages.shares_prefixes:
        longest = max(longest, leaf.pages.largest_bytes)
    return levels + count * (_OFFSET_BYTES + longest) + leaf.pages.data_bytes


def _nested_bytes(leaf: Leaf, *, as_dictionary: bool) -> int:
    """The most bytes that the values of all rows take as they are read."""
    count, pages = leaf.pages.value_count, leaf.pages
    if not leaf.is_text:
        return count * (_LEVEL_BYTES + leaf.width)
    if as_dictionary and not pages.shares_prefixes:
        return count * (_LEVEL_BYTES + _OFFSET_BYTES) + pages.data_bytes
    return _dense_bytes(leaf, 0) + count * _VIEW_BYTES


def _flat_row_bytes(leaf: Leaf, is_index: bool) -> int:
    """The most bytes that a row takes as it is read, without texts that are stored in full."""
    if not leaf.is_text:
        return leaf.width
    longest = leaf.pages.largest_bytes if leaf.pages.shares_prefixes else 0
    if leaf.pages.has_indices and not is_index:
        longest = max(longest, leaf.pages.dictionary_bytes)
    return _VIEW_BYTES + _OFFSET_BYTES + longest


def _fit_rows(columns: Sequence[Sequence[Page]], rows: int, budget_bytes: int) -> int:
    """How many adjacent rows are in pages within the budget, from any first row on; at least 1.

    The rows can touch two pages of each column: one is always in memory.
    """
    budget_bytes = max(budget_bytes, 2 * sum(max(page.size_bytes for page in pages) for pages in columns))
    ends = [np.cumsum([page.value_count for page in pages]) for pages in columns]
    sizes = [np.concatenate([[0], np.cumsum([page.size_bytes for page in pages])]) for pages in columns]
    while rows > 1:
        touched = 0
        for own_ends, own_sizes in zip(ends, sizes, strict=True):
            # The worst place to begin is the last row of a page.
            last = np.searchsorted(own_ends, own_ends - 1 + rows, side="left") + 1
            last = np.minimum(last, len(own_ends))
            touched += int((own_sizes[last] - own_sizes[:-1]).max())
        if touched <= budget_bytes:
            break
        rows //= 2
    return rows


def split_decoded(batch: pa.RecordBatch, budget_bytes: int) -> Iterator[pa.RecordBatch]:
    """Splits rows with dictionaries where their values would exceed a budget together.

    Args:
        batch: Rows as they were read.
        budget_bytes: The most bytes of the values of a part, unless a single row has more.

    Yields:
        The rows in order. Their dictionaries stay.

    Raises:
        TooLarge: A row alone would take more than `LARGEST_DECODED_BYTES`.
    """
    columns = [column for column in batch.columns if _has_dictionary(column.type)]
    if sum(_most_bytes(column) for column in columns) <= budget_bytes:
        yield batch
        return
    ends = np.cumsum(sum((_row_bytes(column) for column in columns), np.zeros(batch.num_rows, np.int64)))
    start = done = 0
    while start < batch.num_rows:
        end = max(start + 1, int(np.searchsorted(ends, done + budget_bytes, side="right")))
        size_bytes = int(ends[end - 1]) - done
        if size_bytes > LARGEST_DECODED_BYTES:
            raise TooLarge(f"a row takes {size_bytes} bytes of memory, and at most {LARGEST_DECODED_BYTES} are used")
        # The places in the dictionary are copied, because casts of lists convert everything that a slice is cut from.
        yield batch if end - start == batch.num_rows else batch.take(pa.array(np.arange(start, end)))
        start, done = end, int(ends[end - 1])


def _has_dictionary(data_type: pa.DataType) -> bool:
    if pt.is_dictionary(data_type):
        return True
    return any(_has_dictionary(data_type.field(place).type) for place in range(data_type.num_fields))


def _most_bytes(values: pa.Array) -> int:
    """The most bytes that an array takes without its dictionaries."""
    if pt.is_dictionary(values.type):
        longest = pc.max(pc.binary_length(values.dictionary)).as_py() if len(values.dictionary) else 0
        return len(values) * int(longest or 0)
    return sum(_most_bytes(child) for child in _children(values))


def _row_bytes(values: pa.Array) -> RowBytes:
    """How many bytes the texts of each row take that are in dictionaries."""
    if pt.is_dictionary(values.type):
        lengths = np.append(pc.fill_null(pc.binary_length(values.dictionary), 0).to_numpy().astype(np.int64), 0)
        return lengths[pc.fill_null(values.indices, len(lengths) - 1).to_numpy()]
    if pt.is_struct(values.type):
        zero = np.zeros(len(values), np.int64)
        return sum((_row_bytes(child) for child in _children(values) if _has_dictionary(child.type)), zero)
    if pt.is_list(values.type) or pt.is_map(values.type):
        inner = [child for child in _children(values) if _has_dictionary(child.type)]
        if not inner:
            return np.zeros(len(values), np.int64)
        within = np.concatenate([[0], np.cumsum(sum(_row_bytes(child) for child in inner))])
        places = values.offsets.to_numpy()
        return np.asarray(within[places[1:]] - within[places[:-1]], np.int64)
    return np.zeros(len(values), np.int64)


def _children(values: pa.Array) -> list[pa.Array]:
    if pt.is_struct(values.type):
        return [values.field(place) for place in range(values.type.num_fields)]
    if pt.is_map(values.type):
        return [values.keys, values.items]
    return [values.values] if pt.is_list(values.type) else []


def _shown(leaf: Leaf) -> str:
    return leaf.path[:100]
