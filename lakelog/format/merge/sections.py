"""Key-range sections: which files of a bucket must be merged with each other, and which stay alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class KeyRange:
    """Bounds of a file's keys in the encoding of `lakelog.format.keys.encoding`, both inclusive; None: unbounded.

    A truncated bound is allowed: it only makes the range larger.
    """

    lower: bytes | None
    upper: bytes | None


def split_sections(ranges: Sequence[KeyRange]) -> list[list[int]]:
    """Groups the files of one bucket into maximal sets whose key ranges overlap, directly or through others. Pure.

    No key occurs in two sections, so sections are merged one after the other in bounded memory, and a section of one
    file without deletes needs no merging at all. O(n log n) in the number of files.

    Args:
        ranges: One range per file, in the files' order (oldest first).

    Returns:
        Sections in key order; each holds the indices of its files, ascending, so oldest first. Every file is in exactly
        one.
    """
    by_lower = sorted(range(len(ranges)), key=lambda index: ranges[index].lower or b"")
    sections: list[list[int]] = []
    upper: bytes | None = b""
    for index in by_lower:
        lower = ranges[index].lower or b""
        if sections and (upper is None or lower <= upper):
            sections[-1].append(index)
            upper = _higher(upper, ranges[index].upper)
        else:
            sections.append([index])
            upper = ranges[index].upper
    return [sorted(section) for section in sections]


def find_depth(ranges: Sequence[KeyRange]) -> int:
    """Returns the largest number of ranges that share one key, at least 1. Pure; O(n log n)."""
    begins = sorted(each.lower or b"" for each in ranges)
    ends = sorted(each.upper for each in ranges if each.upper is not None)
    deepest = 1
    ended = 0
    for number, begin in enumerate(begins, 1):
        while ended < len(ends) and ends[ended] < begin:
            ended += 1
        deepest = max(deepest, number - ended)
    return deepest


def do_meet(left: KeyRange, right: KeyRange) -> bool:
    """Whether a key can be in both ranges. Pure."""
    return (left.upper is None or (right.lower or b"") <= left.upper) and (
        right.upper is None or (left.lower or b"") <= right.upper
    )


def find_hull(ranges: Sequence[KeyRange]) -> KeyRange:
    """Returns the smallest range that contains some ranges, at least one. Pure."""
    lowers, uppers = [each.lower for each in ranges], [each.upper for each in ranges]
    return KeyRange(
        None if None in lowers else min(each for each in lowers if each is not None),
        None if None in uppers else max(each for each in uppers if each is not None),
    )


def _higher(left: bytes | None, right: bytes | None) -> bytes | None:
    return None if left is None or right is None else max(left, right)
