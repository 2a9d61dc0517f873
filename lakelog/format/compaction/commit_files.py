"""Files of one commit that are merged before they enter its snapshot: small ones, changelogs (semantics 6.4, 3.4).

Objectives, which conflict: few files in the snapshot; no well-placed row is written again; no order changes. So only
small files are merged, by the same measure as in compactions, with the files that must be merged along with them:

1. Files of a bucket of a keyed table are processed in the order of their keys. Between large files that share no key
   with others lie stretches of other files; a stretch with two small files becomes one sorted run. Large files in it
   share keys with the small ones, so they are merged too.
2. Append tables with buckets: adjacent files in the commit's order that are all small are combined.
3. Append tables without buckets: small files of a partition are combined, in the order in which they were written.
4. Changelog files of the producer `input` hold the records of a bucket by key, then arrival. Several tasks or buffers
   each bring such files: those whose keys overlap become one, whatever their size, and then follow the order of keys.

An unchanged stretch keeps its files in their places. All of it is pure; its cost is linear in the commit's files.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.format.merge.sections import KeyRange, split_sections
from lakelog.format.tables.files import DataFile

MAX_GROUP_FILES: Final = 250
"""Files of an append table that one worker combines, so that several workers share thousands of small ones."""

_FULL_TARGETS: Final = 2
"""As for compactions: a group ends at twice the target size, so that at most its last file is small."""


@dataclass(frozen=True)
class MergeGroup:
    """Files of one commit that are merged.

    Args:
        places: Their indices in the commit's list, rising; at least two.
        size_bytes: Their total size.
    """

    places: tuple[int, ...]
    size_bytes: int


def plan_keyed_files(files: Sequence[DataFile], small_file_bytes: int) -> tuple[MergeGroup, ...]:
    """Plans which files of keyed tables become one sorted run: each group becomes one. Pure.

    Args:
        files: A commit's data files, or its changelog files, in its order.
        small_file_bytes: Below this size a file is small.

    Returns:
        Groups of files of one bucket; a group shares keys with no file outside it.
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
    """Plans which changelog files become one, so that those of a bucket can follow the order of keys. Pure.

    Args:
        files: A commit's changelog files of the producer `input`, in the order of arrival.
        small_file_bytes: As for `plan_keyed_files`; 0: none is small.

    Returns:
        The groups of `plan_keyed_files`, and those of other files of one bucket that share keys and are not in key
        order.
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
    """Sorts the files of each bucket by key, within the places that they have together. Pure.

    Args:
        files: The files after the groups of `plan_changelog_files` were merged.
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
    """Plans which files of append tables are combined, those of each group in their order. Pure.

    Args:
        files: A commit's data files, in its order.
        small_file_bytes: Below this size a file is small.
        target_file_size_bytes: The approximate size at which a file ends.
        has_buckets: Whether the order of a bucket's rows counts, so that only adjacent files are combined.

    Returns:
        Groups of files of one partition, and of one bucket if there are buckets.
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
    """Puts the result of each group into the place of its first file. Pure.

    Args:
        files: The files as they were planned.
        groups: The plan.
        merged: The result of each group.
    """
    replaced: dict[int, Sequence[DataFile]] = {}
    for group, made in zip(groups, merged, strict=True):
        replaced |= dict.fromkeys(group.places[1:], ())
        replaced[group.places[0]] = made
    return tuple(new for place, file in enumerate(files) for new in replaced.get(place, (file,)))


def _group_places(files: Sequence[DataFile], *, by_bucket: bool) -> Iterable[list[int]]:
    """The indices of the files of each bucket, or of each partition."""
    groups: dict[tuple[bytes, int], list[int]] = {}
    for place, file in enumerate(files):
        groups.setdefault((file.partition, file.bucket if by_bucket else 0), []).append(place)
    return groups.values()


def _follow_by_key(files: Sequence[DataFile]) -> bool:
    """Whether no key of a file is above one of the next; a file that was cut in the middle of a key fulfils this."""
    return all(
        each.max_key is not None and each.max_key <= (later.min_key or b"") for each, later in itertools.pairwise(files)
    )


def _close(files: Sequence[DataFile], places: Sequence[int], small_file_bytes: int) -> list[MergeGroup]:
    """The group of some files; none if fewer than two of them are small, since nothing would be gained."""
    if sum(files[place].size_bytes < small_file_bytes for place in places) < 2:
        return []
    return [MergeGroup(tuple(sorted(places)), sum(files[place].size_bytes for place in places))]
