"""Reads an object in S3, and notices answers that are too short.

pyarrow (26) reports all requested bytes as read, even if the answer was shorter: the rest of the buffer is what the
memory held before, possibly the same part of another file. So the last byte of a buffer is set before the read. If it
is the same afterwards, the read is repeated with another value.
"""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import fs

from lakelog.errors import Unavailable

Ask = Callable[[Callable[[fs.S3FileSystem], Any], int], Any]
"""Makes a call of S3, with present keys, that moves so many bytes, and translates its errors."""

Opened = tuple[fs.S3FileSystem, pa.NativeFile]
"""An object that pyarrow has opened, and the file system that it was opened with."""

READS: Final = 7
"""How often a range is read before it counts as unreadable: as often as other requests are made by default."""

_PAUSE_S: Final = 0.1
"""The longest pause after the second short answer; it doubles with each further one."""

_LEAST_BYTES: Final = 4096
"""Fewer are never read at once: an error's text, which pyarrow's first try may have put into the buffer, is shorter."""


def open_s3_input(opened: Opened, ask: Ask, key: str, *, checks_length: bool = True) -> S3Input:
    """Returns a file that notices short answers, and is opened again when its keys are replaced.

    Args:
        opened: The object, opened by pyarrow.
        ask: Makes calls of S3.
        key: The object's bucket and key.
        checks_length: Whether short answers are noticed; only tests switch this off.
    """
    return S3Input(_Ranges(opened, ask, key, checks_length))


class S3Input(pa.PythonFile):  # type: ignore[misc]  # pyarrow has no types
    """An open object. Several threads may call `read_at`; pyarrow's own code reads one range after the other."""

    def __new__(cls, ranges: _Ranges) -> S3Input:
        """Makes the object for pyarrow."""
        return super().__new__(cls, ranges, mode="r")

    def __init__(self, ranges: _Ranges) -> None:
        self._ranges = ranges

    def read_at(self, nbytes: int, offset: int) -> memoryview:
        """Some bytes from a place on; fewer at the end of the object."""
        return self._ranges.read_range(nbytes, offset)


class _Ranges(io.RawIOBase):
    """The same object as a file of Python."""

    def __init__(self, opened: Opened, ask: Ask, key: str, checks_length: bool) -> None:
        super().__init__()
        self._opened = opened
        self._ask = ask
        self._key = key
        self._name = f"s3://{key}"
        self._checks_length = checks_length
        self._size = int(opened[1].size())
        self._place = 0

    def read_range(self, count: int, offset: int) -> memoryview:
        end = min(offset + count, self._size)
        if end <= offset:
            return memoryview(b"")
        start = max(0, min(offset, end - _LEAST_BYTES))
        marker = int.from_bytes(np.random.bytes(1), "big")
        for number in range(READS if self._checks_length else 1):
            if number > 1:
                # Random, so that readers that were disturbed together do not come together again.
                time.sleep(random.random() * _PAUSE_S * 2**number / 4)
            # SUBTLE: each try has a buffer of its own. A try that its caller has left may still write into it.
            data = np.empty(end - start, np.uint8)
            data[-1] = marker
            self._ask(partial(self._read_into, data, start), len(data))
            if data[-1] != marker or not self._checks_length:
                return data.data[offset - start :]
            marker ^= 0xFF
        raise Unavailable(
            f"S3 answered {READS} times with fewer bytes of {self._name} than requested. Read again; if it stays so, "
            "look at the store, and at proxies and caches before it.",
            reason="SHORT_READ",
            metadata={"path": self._name},
        )

    def _read_into(self, data: npt.NDArray[np.uint8], start: int, filesystem: fs.S3FileSystem) -> None:
        before, source = self._opened
        if filesystem is not before:
            # A read of another thread may go on with the old one, so that is not closed here.
            source = filesystem.open_input_file(self._key)
            self._opened = filesystem, source
        source.get_stream(start, len(data)).readinto(data)

    def read(self, size: int = -1) -> bytes:
        data = self.read_range(self._size - self._place if size < 0 else size, self._place)
        self._place += len(data)
        return bytes(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def close(self) -> None:
        if not self.closed:
            self._opened[1].close()
        super().close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True
