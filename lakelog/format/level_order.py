"""The order of the files of a bucket, and what would break it. Pure.

Invariants, of the live files of one bucket:

1. Of a table with a primary key: files of one level above 0 share no key range: they are one sorted run. Of two files
   that share a range, the one of the lower level is newer. So all that a level hides is below it or in it, and a delete
   may be left out where no level below has its key.
2. Of an append table with buckets: rows stay in the order in which they were committed (SEMANTICS 6.3).

What a compaction writes gets the latest place of its inputs, so that its rows move ahead of files that stand between
these: there may be none that shares a range with them. A file that only moves to another level keeps its place.

Ranges are what bounds tell: a file with a gap in its keys is in the way of what lies in the gap. That is dropped though
it would do no harm, and in return nobody need read keys while the head is locked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Generic, TypeVar

from lakelog.format.commit_facts import FileFacts, Place

T = TypeVar("T")


@dataclass(frozen=True)
class Span:
    """Rows that a compaction takes along, and between which places they move.

    Args:
        file: Which bounds their keys.
        after: What stands behind it may be passed: a place and a file's id.
        until: The place they get.
    """

    file: FileFacts
    after: tuple[Place, int]
    until: Place


def find_in_the_way(spans: Sequence[Span], level: int, others: Iterable[FileFacts], *, keyed: bool) -> FileFacts | None:
    """A file that would break the invariants if some rows got to a level: one of it, or one that they would pass. Pure.

    Args:
        spans: The rows, at least one: as they are in the inputs and as they will be in what takes their place.
        level: The level.
        others: The bucket's other live files.
        keyed: Whether the table has a primary key; else all files stand in one line, whatever their bounds.
    """
    first, last = min(span.after for span in spans), max(span.until for span in spans)

    def is_in_the_way(file: FileFacts, after: tuple[Place, int], until: Place) -> bool:
        if not keyed:
            return (file.place, file.file_id) > after and file.place <= until
        if file.level < level:
            return file.place <= until
        return file.level == level or (file.place, file.file_id) > after

    # Nearly all files pass this test, which knows no keys; only those that do not are looked at more closely.
    suspects = [file for file in others if is_in_the_way(file, first, last)]
    if not keyed:
        return min(suspects, key=lambda file: file.file_id, default=None)
    ranges = _Ranges(spans, [span.file for span in spans])
    for file in suspects:
        if any(is_in_the_way(file, span.after, span.until) for span in ranges.meeting(file)):
            return file
    return None


def find_overlap(files: Sequence[FileFacts]) -> tuple[FileFacts, FileFacts] | None:
    """Two of some files that share a key range, as far as their bounds tell. Pure."""
    for one, other in pairwise(sorted(files, key=_low)):
        if _high(one) >= (False, _low(other)):
            return one, other
    return None


def find_meeting(files: Sequence[FileFacts], others: Sequence[FileFacts]) -> FileFacts | None:
    """The first of some files that shares a key range with one of the others, as far as bounds tell. Pure."""
    ranges = _Ranges(others, others)
    return next((file for file in files if any(True for _ in ranges.meeting(file))), None)


class _Ranges(Generic[T]):
    """Things that have the key ranges of some files, to be asked which of them meet another file's."""

    def __init__(self, things: Sequence[T], files: Sequence[FileFacts]) -> None:
        places = sorted(range(len(files)), key=lambda place: _low(files[place]))
        self._things = [things[place] for place in places]
        self._highs = [_high(files[place]) for place in places]
        self._lows = [_low(files[place]) for place in places]
        self._reach = list(accumulate(self._highs, max))

    def meeting(self, file: FileFacts) -> Iterator[T]:
        """Those that share keys with a file, as far as bounds tell; nothing is gone through where none does."""
        end = len(self._things) if file.max_key is None else bisect_right(self._lows, file.max_key)
        low = (False, _low(file))
        if end and self._reach[end - 1] >= low:
            yield from (self._things[place] for place in range(end) if self._highs[place] >= low)


def _low(file: FileFacts) -> bytes:
    # Nothing lies below the empty key.
    return file.min_key or b""


def _high(file: FileFacts) -> tuple[bool, bytes]:
    return (True, b"") if file.max_key is None else (False, file.max_key)
