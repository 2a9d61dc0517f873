"""Files of one commit that are merged before they enter its snapshot: small ones, changelogs (semantics 6.4, 3.4).

Objectives, which conflict: few files in the snapshot; no row is written again that is well placed already; no order
changes. So only what is small is merged, by the same measure as compactions have, and what must come along with it:

1. Files of a bucket of a keyed table are looked at in the order of their keys. Between large files that share no key
   with others lie stretches of the rest; a stretch with two small files becomes one sorted run. Large files in it share
   keys with the small ones, so that they come along.
2. Append tables with buckets: neighbours in the commit's order that are all small are put together.
3. Append tables without: small files of a partition are put together, in the order in which they were written.
4. Changelog files of the producer `input` hold the records of a bucket by key, then arrival. Several tasks or buffers
   each bring such files: those whose keys overlap become one, whatever their size, and then stand in the order of keys.

A stretch that stays as it is keeps its files in their places. All of it is pure, and costs what the commit has files.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.format.merge.sections import KeyRange, split_sections
from lakelog.format.tables.files import DataFile

MAX_GROUP_FILES: Final = 250
"""Files of an append table that one worker puts together, so that thousands of small ones are shared by several."""

_FULL_TARGETS: Final = 2
"""As for compactions: a group ends at twice the target size, so that at most its last file is small."""


@dataclass(frozen=True)
class MergeGroup:
    """Files of one commit that are merged.

    Args:
        places: Their places in the commit's list, rising; at least two.
        size_bytes: Of them together.
    """

    places: tuple[int, ...]
    size_bytes: int


def plan_keyed_files(files: Sequence[DataFile], small_file_bytes: int) -> tuple[MergeGroup, ...]:
    """Plan which files of keyed tables become one sorted run: those of the groups, each. Pure.

    Args:
        files: A commit's data files, or its changelog files, in its order.
        small_file_bytes: Below this size a file is small.

    Returns:
        Groups of files of one bucket, which share keys with no file outside of theirs.
    """
    groups: list[MergeGroup] = []
    for places in _group_places(files, by_bucket=True):
        if len(places) < 2:
            continue
        stretch: list[int] = []
        for section in split_sections([KeyRange(files[place].min_key, files[place].max_key) for place in places]):
            members = [places[index] for index in section]
            if any(files[place].size_bytes < small_file_bytes for place in members):
                stretch += members
            else:
                groups += _close(files, stretch, small_file_bytes)
                stretch = []
        groups += _close(files, stretch, small_file_bytes)
    return tuple(groups)


def plan_changelog_files(files: Sequence[DataFile], small_file_bytes: int) -> tuple[MergeGroup, ...]:
    """Plan which changelog files become one, so that those of a bucket can stand in the order of their keys. Pure.

    Args:
        files: A commit's changelog files of the producer `input`, in the order of arrival.
        small_file_bytes: As for `plan_keyed_files`; 0: none is small.

    Returns:
        Its groups, and those of other files of one bucket that share keys and do not follow each other by key.
    """
    groups = [*plan_keyed_files(files, small_file_bytes)]
    merged = {place for group in groups for place in group.places}
    for places in _group_places(files, by_bucket=True):
        for section in split_sections([KeyRange(files[place].min_key, files[place].max_key) for place in places]):
            members = [places[index] for index in section]
            if not merged.isdisjoint(members) or _follow_by_key([files[place] for place in members]):
                continue
            groups.append(MergeGroup(tuple(members), sum(files[place].size_bytes for place in members)))
    return tuple(groups)


def sort_by_key(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """Put the files of each bucket in the order of their keys, into the places that they have together. Pure.

    Args:
        files: What is left behind the groups of `plan_changelog_files`.
    """
    ordered = list(files)
    for places in _group_places(files, by_bucket=True):
        found = sorted((files[place] for place in places), key=lambda file: file.min_key or b"")
        for place, file in zip(places, found, strict=True):
            ordered[place] = file
    return tuple(ordered)


def plan_append_files(
    files: Sequence[DataFile], small_file_bytes: int, target_file_size_bytes: int, *, has_buckets: bool
) -> tuple[MergeGroup, ...]:
    """Plan which files of append tables are put together, those of each group in their order. Pure.

    Args:
        files: A commit's data files, in its order.
        small_file_bytes: Below this size a file is small.
        target_file_size_bytes: At about which size a file ends.
        has_buckets: Whether the order of a bucket's rows counts, so that only neighbours go together.

    Returns:
        Groups of files of one partition, and of one bucket where there are buckets.
    """
    groups: list[MergeGroup] = []
    for places in _group_places(files, by_bucket=has_buckets):
        waiting: list[int] = []
        filled = 0
        for place in places:
            size_bytes = files[place].size_bytes
            if size_bytes < small_file_bytes:
                waiting.append(place)
                filled += size_bytes
            if (
                (has_buckets and size_bytes >= small_file_bytes)
                or len(waiting) >= MAX_GROUP_FILES
                or (len(waiting) > 1 and filled >= _FULL_TARGETS * target_file_size_bytes)
            ):
                groups += _close(files, waiting, small_file_bytes)
                waiting, filled = [], 0
        groups += _close(files, waiting, small_file_bytes)
    return tuple(groups)


def replace_files(
    files: Sequence[DataFile], groups: Iterable[MergeGroup], merged: Iterable[Sequence[DataFile]]
) -> tuple[DataFile, ...]:
    """Put what was made of each group into the place of its first file. Pure.

    Args:
        files: As they were planned.
        groups: The plan.
        merged: What was made of each.
    """
    replaced: dict[int, Sequence[DataFile]] = {}
    for group, made in zip(groups, merged, strict=True):
        replaced |= dict.fromkeys(group.places[1:], ())
        replaced[group.places[0]] = made
    return tuple(new for place, file in enumerate(files) for new in replaced.get(place, (file,)))


def _group_places(files: Sequence[DataFile], *, by_bucket: bool) -> Iterable[list[int]]:
    """The places of the files of each bucket, or of each partition."""
    groups: dict[tuple[bytes, int], list[int]] = {}
    for place, file in enumerate(files):
        groups.setdefault((file.partition, file.bucket if by_bucket else 0), []).append(place)
    return groups.values()


def _follow_by_key(files: Sequence[DataFile]) -> bool:
    """Whether no key of a file lies above one of the next; what is cut in the middle of a key does."""
    return all(
        each.max_key is not None and each.max_key <= (later.min_key or b"") for each, later in itertools.pairwise(files)
    )


def _close(files: Sequence[DataFile], places: Sequence[int], small_file_bytes: int) -> list[MergeGroup]:
    """The group that some files are; none where fewer than two of them are small, since nothing would be gained."""
    if sum(files[place].size_bytes < small_file_bytes for place in places) < 2:
        return []
    return [MergeGroup(tuple(sorted(places)), sum(files[place].size_bytes for place in places))]
