"""Cursors into many Avro records at once: what readers of its binary encoding are built of.

Where a value begins is known only when the one before it was read. So each record has a *cursor*, and one step reads
the same thing of all records. The only loop is over the elements of the longest array. A record that cannot be read is
*wrong*: its cursor stays where it is, and whatever is read of it says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.log.codecs.byte_columns import Mask, take_spans, to_bounds, to_bytes

Records = npt.NDArray[np.int64]
"""Numbers of records, each at most once."""

_VARINT_BYTES: Final = 10
_PADDING: Final = 16
"""Bytes behind the data that may be looked at, though no value stands there."""


_FEW: Final = 16
"""For fewer records at once a step takes longer than to read their elements one by one."""


class AvroCursors:
    """Cursors into records.

    Args:
        texts: Binary without NULL, a record each.
        steps: So many steps may each read an element of fewer than `_FEW` records. Then the records of such a step are
            *left over*: they count as wrong, and are to be read one by one. None: none is left over.
    """

    def __init__(self, texts: pa.Array, steps: int | None = None) -> None:
        data, bounds = to_bytes(texts)
        self.data = np.concatenate([data, np.zeros(_PADDING, dtype=np.uint8)])
        self.cursors = bounds[:-1].copy()
        self.ends = bounds[1:]
        self.wrong = np.zeros(len(texts), dtype=np.bool_)
        self.steps_left = steps
        self.left_over = np.zeros(len(texts), dtype=np.bool_)

    def refuse(self, records: Records, mask: Mask) -> None:
        """Says that records cannot be read."""
        self.wrong[records[mask]] = True

    def read_bytes(self, records: Records, count: int) -> npt.NDArray[np.uint8]:
        """The next bytes of each record, at most `_PADDING`; a row of them a record."""
        starts = self.cursors[records]
        unfit = starts + count > self.ends[records]
        self.refuse(records, unfit)
        # A cursor never stands behind the data, but up to so many bytes behind it may be looked at.
        found = self.data[starts[:, None] + np.arange(count)]
        self.cursors[records] = np.where(unfit, starts, starts + count)
        return found

    def read_spans(self, records: Records, size: int | None = None) -> pa.Array:
        """Bytes of this length, by default of the one that stands before them, as binary."""
        lengths = np.full(len(records), size, np.int64) if size is not None else self.read_varints(records)
        starts = self.cursors[records]
        unfit = (lengths < 0) | (lengths > self.ends[records] - starts)
        self.refuse(records, unfit)
        lengths = np.where(unfit, 0, lengths)
        self.cursors[records] += lengths
        return take_spans(self.data, starts, lengths)

    def read_varints(self, records: Records) -> npt.NDArray[np.int64]:
        """Numbers as int and long are encoded."""
        starts = self.cursors[records]
        room = np.minimum(self.ends[records] - starts, _VARINT_BYTES)
        numbers = np.zeros(len(records), dtype=np.uint64)
        lengths = np.zeros(len(records), dtype=np.int64)
        going = np.arange(len(records))
        for place in range(_VARINT_BYTES):
            going = going[room[going] > place]
            if not len(going):
                break
            byte = self.data[starts[going] + place]
            numbers[going] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
            ended = byte < 0x80
            lengths[going[ended]] = place + 1
            going = going[~ended]
        unfit = lengths == 0
        self.refuse(records, unfit)
        self.cursors[records] = starts + lengths
        decoded = (numbers >> np.uint64(1)).view(np.int64) ^ -(numbers & np.uint64(1)).view(np.int64)
        return np.where(unfit, 0, decoded)

    def read_numbers(self, records: Records, bits: int) -> npt.NDArray[np.signedinteger]:
        """As `read_varints`, of numbers that have at most so many bits."""
        numbers = self.read_varints(records)
        if bits < 64:
            outside = (numbers >= 1 << (bits - 1)) | (numbers < -(1 << (bits - 1)))
            self.refuse(records, outside)
            numbers = np.where(outside, 0, numbers)
        return numbers.astype(f"int{bits}")

    def read_blocks(
        self, readers: Sequence[tuple[pa.DataType, Callable[[Records], pa.Array]]], records: Records
    ) -> tuple[pa.Array, list[pa.Array]]:
        """The elements of arrays: offsets, and a column for each reader.

        Args:
            readers: What makes up an element, and the type of each part; together a byte at least.
            records: Whose arrays are read.
        """
        left = np.zeros(len(records), dtype=np.int64)
        lengths = np.zeros(len(records), dtype=np.int64)
        active = np.arange(len(records))
        owners: list[Records] = []
        found: list[list[pa.Array]] = [[] for _ in readers]
        while True:
            active = self._begin_blocks(records, left, active)
            if len(active) < _FEW and self.steps_left is not None:
                active = self._leave_over(records, active)
            if not len(active):
                break
            for column, (_, read) in zip(found, readers, strict=True):
                column.append(read(records[active]))
            owners.append(active)
            lengths[active] += 1
            left[active] -= 1
            active = active[~self.wrong[records[active]]]
        # Element by element becomes array by array.
        order = np.argsort(np.concatenate(owners), kind="stable") if owners else np.zeros(0, dtype=np.int64)
        columns = [
            pa.concat_arrays(column).take(pa.array(order)) if column else pa.array([], data_type)
            for column, (data_type, _) in zip(found, readers, strict=True)
        ]
        return pa.array(to_bounds(lengths), pa.int32()), columns

    def _leave_over(self, records: Records, active: Records) -> Records:
        """SUBTLE: a step takes 0.1 ms and more, so a record of 1 MB in one array would take minutes."""
        self.steps_left = max(0, (self.steps_left or 0) - 1)
        if self.steps_left:
            return active
        self.left_over[records[active]] = True
        self.wrong[records[active]] = True
        return active[:0]

    def _begin_blocks(self, records: Records, left: npt.NDArray[np.int64], active: Records) -> Records:
        """Those that have another element; where a block has ended the next one's count is read."""
        ended = active[left[active] == 0]
        if len(ended):
            counts = self.read_varints(records[ended])
            with_size = counts < 0
            self.read_varints(records[ended[with_size]])
            counts = np.abs(counts)
            # An element takes a byte at least.
            unfit = (counts < 0) | (counts > self.ends[records[ended]] - self.cursors[records[ended]])
            self.refuse(records[ended], unfit)
            left[ended] = np.where(unfit, 0, counts)
        return active[(left[active] > 0) & ~self.wrong[records[active]]]
