"""Reads the headers of a column chunk's pages, which bound the memory for decoding before anything is decoded.

A footer can claim anything, and readers of Parquet do not compare it with the pages. The sizes in a page's header are
reliable: a page that unpacks to another size is refused when it is read. So they bound the memory that a file can take.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import pyarrow.parquet as pq

ReadAt: TypeAlias = Callable[[int, int], bytes]
"""Reads some bytes, given their number and the place of the first; fewer at the end of the file."""

_WINDOW_BYTES: Final = 192
"""Bytes that are read for a header: ours have some 30 bytes, and up to 100 with statistics."""

_LONGEST_HEADER_BYTES: Final = 1 << 20
"""Headers can hold the largest and the smallest value of their page."""

_DATA_PAGE: Final = 0
_DICTIONARY_PAGE: Final = 2
_DATA_PAGE_V2: Final = 3
_DESCRIBED_BY: Final = {_DATA_PAGE: 5, _DICTIONARY_PAGE: 7, _DATA_PAGE_V2: 8}
"""The field of a header with the details of each kind of page."""

_STORED_WHOLE: Final = frozenset({0, 3, 4, 5, 9})
"""PLAIN, RLE, BIT_PACKED, DELTA_BINARY_PACKED, BYTE_STREAM_SPLIT: no text is longer than its stored bytes."""

_STORED_AS_INDEX: Final = frozenset({2, 8})
"""PLAIN_DICTIONARY, RLE_DICTIONARY."""

_MOST_EXPANSION: Final = {"UNCOMPRESSED": 1, "SNAPPY": 64, "LZ4": 256, "LZ4_RAW": 256, "GZIP": 1100}
"""The most bytes that a codec can make of one byte."""

_ANY_EXPANSION: Final = 1 << 16
"""The same for zstd, whose blocks of one repeated byte make some 33,000 of one, and for other codecs."""

_ROOM_BYTES: Final = 4096
"""By how many bytes tiny pages can exceed these factors, which ignore the frames of the codecs."""


class Page(NamedTuple):
    """A data page.

    Attributes:
        value_count: Its values, NULLs included.
        size_bytes: Its size when unpacked.
    """

    value_count: int
    size_bytes: int


@dataclass(frozen=True)
class ChunkPages:
    """The sizes that the pages of a column chunk unpack to.

    Args:
        pages: The data pages in order.
        dictionary_bytes: The size of the dictionary page when unpacked; 0: there is none.
        dictionary_count: The values of the dictionary.
        has_indices: Whether values are stored as places in the dictionary, so that few bytes can name a large one.
        shares_prefixes: Whether values can be stored without the prefix that they share with the value before.
    """

    pages: tuple[Page, ...]
    dictionary_bytes: int
    dictionary_count: int
    has_indices: bool
    shares_prefixes: bool

    @cached_property
    def value_count(self) -> int:
        """The values of all pages."""
        return self.pages[0].value_count if len(self.pages) == 1 else sum(page.value_count for page in self.pages)

    @cached_property
    def data_bytes(self) -> int:
        """The size of all data pages together."""
        return self.pages[0].size_bytes if len(self.pages) == 1 else sum(page.size_bytes for page in self.pages)

    @cached_property
    def largest_bytes(self) -> int:
        """The size of the largest data page."""
        return self.data_bytes if len(self.pages) < 2 else max(page.size_bytes for page in self.pages)


def chunk_range(chunk: pq.ColumnChunkMetaData) -> range:
    """The bytes of the file that a chunk claims to have. Pure."""
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < (chunk.dictionary_page_offset or 0) < start:
        start = chunk.dictionary_page_offset
    return range(start, start + max(0, chunk.total_compressed_size))


def read_chunk_pages(read_at: ReadAt, chunk: pq.ColumnChunkMetaData) -> ChunkPages:
    """Reads the headers of a chunk's pages, as far as its values go, as a reader of the pages does.

    Raises:
        ValueError: A header is damaged, or claims something impossible.
    """
    claimed = chunk_range(chunk)
    place, end = claimed.start, claimed.stop
    left = chunk.num_values
    expansion = _MOST_EXPANSION.get(chunk.compression, _ANY_EXPANSION)
    pages: list[Page] = []
    dictionary_bytes = dictionary_count = 0
    has_indices = shares_prefixes = False
    while left > 0 and place < end:
        header = _read_header(read_at, place, end)
        size_bytes, stored_bytes = header.size_bytes, header.stored_bytes
        if not size_bytes <= stored_bytes * expansion + _ROOM_BYTES or stored_bytes > 2 * size_bytes + _ROOM_BYTES:
            raise ValueError(
                f"a page of {stored_bytes} bytes claims to unpack to {size_bytes}, which {chunk.compression} cannot do"
            )
        place += header.length + stored_bytes
        if header.kind == _DICTIONARY_PAGE:
            # Every reader refuses a second one.
            dictionary_bytes = max(dictionary_bytes, size_bytes)
            dictionary_count = max(dictionary_count, header.value_count)
        elif header.kind in _DESCRIBED_BY:
            pages.append(Page(header.value_count, size_bytes))
            left -= header.value_count
            has_indices |= header.encoding in _STORED_AS_INDEX
            shares_prefixes |= header.encoding not in _STORED_WHOLE and header.encoding not in _STORED_AS_INDEX
    return ChunkPages(tuple(pages), dictionary_bytes, dictionary_count, has_indices, shares_prefixes)


class _Header(NamedTuple):
    length: int
    kind: int
    size_bytes: int
    stored_bytes: int
    value_count: int
    encoding: int


def _read_header(read_at: ReadAt, place: int, end: int) -> _Header:
    window = _WINDOW_BYTES
    while True:
        data = read_at(min(window, end - place), place)
        try:
            return _parse(data)
        except IndexError:
            if len(data) < window or window >= _LONGEST_HEADER_BYTES:
                raise ValueError("the header of a page is cut off, or longer than any") from None
            window *= 16


def _parse(data: bytes) -> _Header:
    own, length = _read_struct(data, 0, 0)
    kind, size_bytes, stored_bytes = own.get(1, -1), own.get(2, -1), own.get(3, -1)
    more = own.get(_DESCRIBED_BY.get(kind, 0), {}) if isinstance(kind, int) else {}
    value_count: int | _Struct = 0
    encoding: int | _Struct = 0
    if isinstance(more, dict):
        value_count, encoding = more.get(1, 0), more.get(4 if kind == _DATA_PAGE_V2 else 2, 0)
    for number in (kind, size_bytes, stored_bytes, value_count, encoding):
        if not isinstance(number, int) or number < 0:
            raise ValueError("the header of a page is damaged")
    return _Header(length, kind, size_bytes, stored_bytes, value_count, encoding)  # type: ignore[arg-type]


_Struct: TypeAlias = "dict[int, int | _Struct]"

_TRUE: Final = 1
_FALSE: Final = 2
_BYTE: Final = 3
_DOUBLE: Final = 7
_BINARY: Final = 8
_STRUCT: Final = 12
_DEEPEST: Final = 4


def _read_struct(data: bytes, place: int, depth: int) -> tuple[_Struct, int]:
    """Reads the numbers of a struct of Thrift's compact protocol; also returns where the struct ends.

    A field that comes twice has its last value, as in other readers. Raises IndexError if the data ends before.
    """
    found: _Struct = {}
    field = 0
    while byte := data[place]:
        place += 1
        kind = byte & 15
        if byte >> 4:
            field += byte >> 4
        else:
            number, place = _read_number(data, place)
            field = number >> 1 ^ -(number & 1)
        if 4 <= kind <= 6:
            # Most numbers are one or two bytes long; a call would take as long as the rest.
            number = data[place]
            place += 1
            if number >= 128:
                number, place = _read_number(data, place - 1)
            found[field] = number >> 1 ^ -(number & 1)
        elif kind == _STRUCT and depth < _DEEPEST:
            found[field], place = _read_struct(data, place, depth + 1)
        elif kind == _BINARY:
            number, place = _read_number(data, place)
            place += number
        elif kind in (_TRUE, _FALSE):
            pass
        elif kind == _BYTE:
            place += 1
        elif kind == _DOUBLE:
            place += 8
        else:
            raise ValueError("the header of a page has a field that no page has")
    return found, place + 1


def _read_number(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
        shift += 7
        if shift > 63:
            raise ValueError("a number in the header of a page is too long")
