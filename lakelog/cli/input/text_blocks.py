"""Text files in blocks of whole records: memory holds one block, and what is wrong in it is found with its line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import InvalidArgument

BLOCK_BYTES: Final = 8 * 1024 * 1024
MAX_RECORD_BYTES: Final = 64 * 1024 * 1024

_LINE_END: Final = 10
_QUOTE: Final = ord('"')
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class ByteStream(Protocol):
    """What blocks are read from."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none only at the end."""
        ...


@dataclass(frozen=True)
class TextBlock:
    """Some records of a file.

    Args:
        data: Their bytes, with their line ends; the last of the file may have none.
        first_line: The number of the line that the first begins in, from 1.
        has_quotes: Whether a line end between two quotes belongs to its record.
    """

    data: bytes
    first_line: int
    has_quotes: bool

    @cached_property
    def ends(self) -> npt.NDArray[np.int64]:
        """Behind which byte each record ends; rising."""
        ends = _record_ends(self.data, self.has_quotes)
        whole = len(self.data)
        return ends if len(ends) and ends[-1] == whole else np.append(ends, whole)

    def line_of(self, record: int) -> int:
        """The number of the line that a record begins in."""
        return self.first_line + self.data.count(b"\n", 0, self.start_of(record))

    def start_of(self, record: int) -> int:
        """The byte that a record begins with."""
        return int(self.ends[record - 1]) if record else 0

    def without(self, record_count: int) -> TextBlock:
        """The block behind its first records."""
        return TextBlock(self.data[self.start_of(record_count) :], self.line_of(record_count), self.has_quotes)


def read_text_blocks(source: ByteStream, name: str, *, has_quotes: bool) -> Iterator[TextBlock]:
    """Reads a stream of text.

    Args:
        source: The stream.
        name: For messages.
        has_quotes: As of `TextBlock`.

    Yields:
        Blocks in order; together they hold every byte but a byte order mark.

    Raises:
        InvalidArgument: A record is longer than `MAX_RECORD_BYTES`.
    """
    data, line, is_first = b"", 1, True
    while True:
        chunk = source.read(BLOCK_BYTES)
        data += chunk.removeprefix(_BYTE_ORDER_MARK) if is_first else chunk
        is_first = False
        end = len(data)
        if chunk:
            ends = _record_ends(data, has_quotes)
            end = int(ends[-1]) if len(ends) else 0
        if not end and len(data) > MAX_RECORD_BYTES:
            # Quotes that stand within values need not pair up: lines are records then.
            end = data.rfind(b"\n") + 1
        if end:
            yield TextBlock(data[:end], line, has_quotes)
            line += data.count(b"\n", 0, end)
            data = data[end:]
        if not chunk:
            return
        if len(data) > MAX_RECORD_BYTES:
            raise InvalidArgument(f"{name}, line {line}: it is longer than {MAX_RECORD_BYTES >> 20} MiB.")


def find_bad_record(block: TextBlock, parse: Callable[[bytes], object]) -> int:
    """The number in the block of the first record that makes `parse` raise an error of Arrow's, by halving."""
    fine, bad = 0, len(block.ends)
    while bad - fine > 1:
        middle = (fine + bad) // 2
        try:
            parse(block.data[: block.start_of(middle)])
            fine = middle
        except pa.ArrowException:
            bad = middle
    return bad - 1


def _record_ends(data: bytes, has_quotes: bool) -> npt.NDArray[np.int64]:
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets == _LINE_END).astype(np.int64)
    if has_quotes and len(ends):
        quotes = np.flatnonzero(octets == _QUOTE)
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return ends + 1
