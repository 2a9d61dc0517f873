"""The order of the files of a bucket, and what would break it. Pure.

Invariants for the live files of one bucket:

1. In a table with a primary key: files of one level above 0 share no key range: they are one sorted run. Of two files
   that share a range, the one of the lower level is newer. So everything that a level hides is in it or below it, and a
   delete can be dropped if no level below has its key.
2. In an append table with buckets: rows stay in the order in which they were committed (semantics 6.3).

The output of a compaction gets the latest place of its inputs, so its rows move ahead of files in between: none of
these may share a range with them. A file that only moves to another level keeps its place.

Bounds define ranges: a file with a gap in its keys conflicts with keys inside the gap. Such a group is dropped though
it would do no harm; in return no keys are read while the head is locked.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from lakelog.format.commit.facts import FileFacts, OrderKey

T = TypeVar("T")
Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Span:
    """Rows that a compaction moves, and the places between which they move.

    Args:
        file: The file that bounds their keys.
        after: Files after this place may be passed: a place and a file's id.
        until: The place they get.
    """

    file: FileFacts
    after: tuple[OrderKey, int]
    until: OrderKey


class BucketOrder:
    """The live files of a bucket in columns, so that thousands are checked at once.

    Args:
        live: The live files.
        later: Files that may become live; none of them is yet.
    """

    def __init__(self, live: Sequence[FileFacts], later: Sequence[FileFacts] = ()) -> None:
        files = [*live, *later]
        self._files = files
        self._index = {file.file_id: number for number, file in enumerate(files)}
        self._is_live = np.arange(len(files)) < len(live)
        self._level = np.array([file.level for file in files], np.int64)
        self._id = np.array([file.file_id for file in files], np.int64)
        self._snapshot = np.array([file.order_key.snapshot_id for file in files], np.int64)
        self._ordinal = np.array([file.order_key.ordinal for file in files], np.int64)
        # Keys are replaced by their indices among all bounds, since keys can have any length.
        self._bounds = sorted({key for file in files for key in (file.min_key, file.max_key) if key is not None})
        numbers = {key: number for number, key in enumerate(self._bounds)}
        self._low = np.array([-1 if f.min_key is None else numbers[f.min_key] for f in files], np.int64)
        self._high = np.array([len(numbers) if f.max_key is None else numbers[f.max_key] for f in files], np.int64)

    def remove(self, file_ids: Iterable[int]) -> None:
        """Marks files as no longer live."""
        self._is_live[[self._index[file_id] for file_id in file_ids]] = False

    def add(self, file_ids: Iterable[int]) -> None:
        """Marks files as live."""
        self._is_live[[self._index[file_id] for file_id in file_ids]] = True

    def move(self, file_ids: Iterable[int], level: int) -> None:
        """Moves files to a level."""
        for file_id in file_ids:
            number = self._index[file_id]
            self._level[number] = level
            self._files[number] = replace(self._files[number], level=level)

    def find_suspects(
        self, spans: Sequence[Span], level: int, own: Iterable[int], *, keyed: bool
    ) -> Iterator[FileFacts]:
        """Live files, other than the rows' own, that may conflict with rows on their way to a level, by their ids."""
        first, last = min(span.after for span in spans), max(span.until for span in spans)
        newer = _is_above(
            (self._snapshot, first[0].snapshot_id), (self._ordinal, first[0].ordinal), (self._id, first[1])
        )
        reached = ~_is_above((self._snapshot, last.snapshot_id), (self._ordinal, last.ordinal))
        if keyed:
            low = bisect_left(self._bounds, min(_low(span.file) for span in spans))
            highs = [span.file.max_key for span in spans]
            high = (
                len(self._bounds)
                if None in highs
                else bisect_right(self._bounds, max(k for k in highs if k is not None))
            )
            found = (self._low < high) & (self._high >= low)
            found &= ((self._level < level) & reached) | (self._level == level) | ((self._level > level) & newer)
        else:
            found = newer & reached
        found &= self._is_live
        found[[self._index[file_id] for file_id in own]] = False
        for number in sorted(np.flatnonzero(found).tolist(), key=lambda number: self._files[number].file_id):
            yield self._files[number]

    def find_before(self, own: Sequence[FileFacts]) -> FileFacts | None:
        """A live file, other than the given ones, that shares the range of their keys and is before the newest of them.

        Args:
            own: Files, at least one of them live; the range covers all of their keys.
        """
        numbers = [self._index[file.file_id] for file in own if file.file_id in self._index]
        last = max((file.order_key, file.file_id) for file in own)
        later = _is_above((self._snapshot, last[0].snapshot_id), (self._ordinal, last[0].ordinal), (self._id, last[1]))
        found = (self._low <= self._high[numbers].max()) & (self._high >= self._low[numbers].min())
        found &= self._is_live & ~later
        found[numbers] = False
        places = np.flatnonzero(found)
        return self._files[places[0]] if len(places) else None


def find_in_the_way(
    files: BucketOrder, spans: Sequence[Span], level: int, own: Sequence[int], *, keyed: bool
) -> FileFacts | None:
    """A file that would break the invariants if some rows got to a level: one of it, or one that they would pass. Pure.

    Args:
        files: The files of the bucket.
        spans: The rows, at least one: as they are in the inputs and as they will be in the outputs.
        level: The level.
        own: Ids of the rows' own files, which cannot conflict.
        keyed: Whether the table has a primary key; else all files are in one order, whatever their bounds.
    """
    suspects = files.find_suspects(spans, level, own, keyed=keyed)
    if not keyed:
        return next(suspects, None)
    ranges = _Ranges(spans, [span.file for span in spans])
    for file in suspects:
        if any(_is_in_the_way(file, span, level) for span in ranges.meeting(file)):
            return file
    return None


def _is_in_the_way(file: FileFacts, span: Span, level: int) -> bool:
    """Whether a file conflicts with rows that share its range."""
    if file.level < level:
        return file.order_key <= span.until
    return file.level == level or (file.order_key, file.file_id) > span.after


def _is_above(*columns: tuple[Numbers, int]) -> Mask:
    """Where rows of some columns are above some values, the first column being the most significant."""
    (column, value), *rest = columns
    return (column > value) | ((column == value) & _is_above(*rest)) if rest else column > value


def find_overlap(files: Sequence[FileFacts]) -> tuple[FileFacts, FileFacts] | None:
    """Two of some files that share a key range, as far as their bounds show. Pure."""
    for one, other in pairwise(sorted(files, key=_low)):
        if _high(one) >= (False, _low(other)):
            return one, other
    return None


def find_meeting(files: Sequence[FileFacts], others: Sequence[FileFacts]) -> FileFacts | None:
    """The first of some files that shares a key range with one of the others, as far as bounds show. Pure."""
    ranges = _Ranges(others, others)
    return next((file for file in files if any(True for _ in ranges.meeting(file))), None)


class _Ranges(Generic[T]):
    """Items with the key ranges of some files, to find those that meet another file's range."""

    def __init__(self, things: Sequence[T], files: Sequence[FileFacts]) -> None:
        places = sorted(range(len(files)), key=lambda place: _low(files[place]))
        self._things = [things[place] for place in places]
        self._highs = [_high(files[place]) for place in places]
        self._lows = [_low(files[place]) for place in places]
        self._highest_until = list(accumulate(self._highs, max))

    def meeting(self, file: FileFacts) -> Iterator[T]:
        """The items that share keys with a file, as far as bounds show; iterates over nothing if there are none."""
        end = len(self._things) if file.max_key is None else bisect_right(self._lows, file.max_key)
        low = (False, _low(file))
        if end and self._highest_until[end - 1] >= low:
            yield from (self._things[place] for place in range(end) if self._highs[place] >= low)


def _low(file: FileFacts) -> bytes:
    # Nothing lies below the empty key.
    return file.min_key or b""


def _high(file: FileFacts) -> tuple[bool, bytes]:
    return (True, b"") if file.max_key is None else (False, file.max_key)
