"""Text files in blocks of whole records, with the place of each: memory holds one block, whatever the file's size.

A record is a line; with quoted line ends it may be several. Line numbers count from 1 and name a record's first line.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.records.bad_records import FileRefused
from lakelog.records.text_options import TextOptions

Indices = npt.NDArray[np.int64]

BLOCK_BYTES: Final = 4 << 20
"""Large enough that the cost of a call to the parser vanishes, small enough for many tasks at once."""

_LINE_END: Final = 10
_RETURN: Final = 13
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class ByteStream(Protocol):
    """What blocks are read from."""

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        ...


@dataclass(frozen=True)
class Block:
    """Some records of a file.

    Args:
        data: Their bytes.
        starts: Where each begins in `data`; rising.
        ends: Where each ends, without its line end.
        lines: The number of the line each begins in.
    """

    data: bytes
    starts: Indices
    ends: Indices
    lines: Indices

    def __len__(self) -> int:
        return len(self.starts)

    def raw(self, record: int) -> bytes:
        """A record as it stands in the file."""
        return self.data[int(self.starts[record]) : int(self.ends[record])]

    def split_lines(self, first: int) -> Block:
        """The lines from the beginning of a record on, whatever their quotes are."""
        data = self.data[int(self.starts[first]) : self.data.index(b"\n", int(self.ends[-1])) + 1]
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _LINE_END).astype(np.int64)
        return _make_block(data, ends, ends, int(self.lines[first]))

    def join(self, records: Indices) -> pa.Buffer:
        """Some records, each with a line end; neighbours are taken together, so that few pieces are copied or none."""
        if len(records) == 0:
            return pa.py_buffer(b"")
        breaks = np.flatnonzero(np.diff(records) != 1)
        if not len(breaks):
            start, end = int(self.starts[records[0]]), self.data.index(b"\n", int(self.ends[records[-1]])) + 1
            return pa.py_buffer(self.data).slice(start, end - start)
        firsts = records[np.concatenate([[0], breaks + 1])]
        lasts = records[np.concatenate([breaks, [len(records) - 1]])]
        pieces = [self.data[self.starts[a] : self.ends[b]] for a, b in zip(firsts, lasts, strict=True)]
        return pa.py_buffer(b"\n".join([*pieces, b""]))

    def count(self, byte: int) -> Indices:
        """How often a byte occurs in each record."""
        places = np.flatnonzero(np.frombuffer(self.data, np.uint8) == byte)
        return np.searchsorted(places, self.ends) - np.searchsorted(places, self.starts)


def read_blocks(stream: ByteStream, options: TextOptions, *, quote: str | None) -> Iterator[Block]:
    """Reads a stream of UTF-8 text.

    Args:
        stream: Its bytes.
        options: How long a record may be.
        quote: The character between two of which a line end does not end the record; None: it always does.

    Yields:
        Blocks in order; together they hold every line, empty ones too.

    Raises:
        FileRefused: A record is longer.
    """
    rest = b""
    line = 1
    is_first = True
    while True:
        chunk = stream.read(BLOCK_BYTES)
        if is_first:
            chunk = chunk.removeprefix(_BYTE_ORDER_MARK)
            is_first = False
        data = rest + chunk
        if not data:
            return
        if not chunk and data[-1] != _LINE_END:
            data += b"\n"
        octets = np.frombuffer(data, np.uint8)
        newlines = np.flatnonzero(octets == _LINE_END).astype(np.int64)
        ends = newlines
        if quote is not None:
            ends = newlines[np.searchsorted(np.flatnonzero(octets == ord(quote)), newlines) % 2 == 0]
        if len(ends) == 0 and not chunk:
            # A quote that is never closed: all that is left is one record.
            ends = newlines[-1:]
        complete = int(ends[-1]) + 1 if len(ends) else 0
        if len(data) - complete > options.max_record_bytes and options.loose_quotes and len(newlines):
            # Quotes that stand within values need not pair up: lines are records then.
            ends = newlines
            complete = int(ends[-1]) + 1
        if len(data) - complete > options.max_record_bytes:
            raise FileRefused(
                f"the record that begins in line {line + int(np.searchsorted(newlines, complete))} is longer than "
                f"{options.max_record_bytes} bytes{options.advise('max_record_bytes', ' ({})')}"
                + ("" if quote is None else ", or a quote in it is never closed")
            )
        rest = data[complete:]
        if len(ends):
            yield _make_block(data, ends, newlines, line)
            line += int(np.searchsorted(newlines, complete))
        if not chunk:
            if rest:
                yield _make_block(rest, np.array([len(rest) - 1], np.int64), np.empty(0, np.int64), line)
            return


def _make_block(data: bytes, ends: Indices, newlines: Indices, line: int) -> Block:
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)
    octets = np.frombuffer(data, np.uint8)
    has_return = (ends > starts) & (octets[np.maximum(ends - 1, 0)] == _RETURN)
    return Block(data, starts, ends - has_return, line + np.searchsorted(newlines, starts).astype(np.int64))


class Transcoder:
    """A stream of text in some encoding as UTF-8.

    Args:
        stream: The bytes.
        encoding: A codec that Python knows.
    """

    def __init__(self, stream: ByteStream, encoding: str) -> None:
        self._stream = stream
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("strict")
        self._offset = 0

    def read(self, size: int) -> bytes:
        """About `size` bytes, none only at the end; raises FileRefused where the bytes are no such text."""
        while True:
            chunk = self._stream.read(size)
            try:
                text = self._decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                raise FileRefused(
                    f"near byte {self._offset + error.start} it is not text in {self._encoding} "
                    "(source.options.encoding)"
                ) from error
            self._offset += len(chunk)
            if text or not chunk:
                return text.encode("utf-8", "surrogatepass")
