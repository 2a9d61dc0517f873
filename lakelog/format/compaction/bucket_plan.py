"""From picked sorted runs to work: what is rewritten together, what changes its level only, what stays as it is.

Objectives, which conflict: files that overlap nothing are not rewritten; small files do not stay; deletes are dropped
as soon as they hide nothing; no read ever changes.

The picked files are split into sections whose key ranges do not meet. A section of several files is merged. A large
file that stands alone is moved to the output level, in metadata alone; small ones are rewritten together with their
neighbours in key order, up to the next large one. A single small file between large ones is moved too: rewriting it
would improve nothing.

Invariants:

1. A delete is dropped only if no file outside the pick can hold its key: all files that are newer than the pick were
   committed after the plan and do not need it, and older ones are checked by their key ranges.
2. A file with deletes that can be dropped is not moved to the highest level but rewritten, so that files there have
   none.
3. Rewrites of one plan share no key, nor does a file that is moved or kept lie between the keys of a rewrite. So the
   output level stays one sorted run, even if only some of the rewrites are committed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

from lakelog.format.compaction.picking import Pick, find_highest_level, pick_due, pick_full, pick_level_0
from lakelog.format.compaction.plan import BucketPlan, Move, NoPlan, Rewrite, Section
from lakelog.format.compaction.runs import BucketFiles
from lakelog.format.compaction.settings import CompactionSettings
from lakelog.format.merge.sections import KeyRange, find_hull, split_sections

REWRITE_TARGET_FILES: Final = 16
"""A rewrite ends after the section with which it has inputs for this many files: several workers share a large bucket,
and the loser of a race loses little. At each end one file may be small."""


def find_delete_horizon(as_of_ms: int, delete_retention_ms: int) -> int:
    """Returns the commit time before which deletes have no effect any more, in a table with a `sequence.field`. Pure.

    A delete beats late records committed up to `sequence.delete-retention` after it (semantics 1.3), so it can only be
    dropped when every later commit is after that.

    Args:
        as_of_ms: A time, in milliseconds, before which no later commit can be: that of the newest snapshot, or the
            metastore's clock.
        delete_retention_ms: `sequence.delete-retention`.
    """
    return as_of_ms - delete_retention_ms


def plan_due(
    files: BucketFiles,
    settings: CompactionSettings,
    *,
    now_ms: int,
    last_full_ms: int | None,
    delete_horizon_ms: int | None = None,
) -> BucketPlan | NoPlan:
    """Plans what is due by itself in a bucket of a primary-key table (`picking.pick_due`). Pure.

    Args:
        files: All live files of the bucket.
        settings: The table's settings.
        now_ms: As of `pick_due`.
        last_full_ms: As of `pick_due`.
        delete_horizon_ms: The result of `find_delete_horizon`; None: the table has no `sequence.field`.
    """
    pick = pick_due(files.runs, settings, now_ms=now_ms, last_full_ms=last_full_ms)
    return pick if isinstance(pick, NoPlan) else plan_pick(files, pick, settings, delete_horizon_ms=delete_horizon_ms)


def plan_full(
    files: BucketFiles,
    settings: CompactionSettings,
    *,
    why: str,
    rewrite_all: bool = False,
    delete_horizon_ms: int | None = None,
) -> BucketPlan | NoPlan:
    """Plans the compaction of a bucket as a whole, whatever its sizes. Pure.

    None if all files are at the highest level and none of them has a delete that can be dropped.

    Args:
        files: All live files of the bucket.
        settings: The table's settings.
        why: The origin of the request, in a sentence.
        rewrite_all: Rewrite every file, also those that would only be moved or kept, for instance to write them with
            another compression.
        delete_horizon_ms: The result of `find_delete_horizon`; None: the table has no `sequence.field`.
    """
    outdated = bool(((files.delete_counts > 0) & _are_deletes_old(files, delete_horizon_ms)).any())
    pick = pick_full(files.runs, settings, why=why, also_highest=rewrite_all or outdated)
    if isinstance(pick, NoPlan):
        return pick
    return plan_pick(files, pick, settings, rewrite_all=rewrite_all, delete_horizon_ms=delete_horizon_ms)


def plan_level_0(
    files: BucketFiles, settings: CompactionSettings, *, delete_horizon_ms: int | None = None
) -> BucketPlan | NoPlan:
    """Plans to move all files of a bucket out of level 0, however few: for requests when nothing is due. Pure.

    Args:
        files: All live files of the bucket.
        settings: The table's settings.
        delete_horizon_ms: The result of `find_delete_horizon`; None: the table has no `sequence.field`.
    """
    pick = pick_level_0(files.runs, settings)
    return pick if isinstance(pick, NoPlan) else plan_pick(files, pick, settings, delete_horizon_ms=delete_horizon_ms)


def plan_pick(
    files: BucketFiles,
    pick: Pick,
    settings: CompactionSettings,
    *,
    rewrite_all: bool = False,
    delete_horizon_ms: int | None = None,
) -> BucketPlan | NoPlan:
    """Turns a pick into work. Pure; O(n log n) in the number of the bucket's files.

    Args:
        files: All live files of the bucket; the pick is among their runs.
        pick: What is compacted.
        settings: The table's settings.
        rewrite_all: As of `plan_full`.
        delete_horizon_ms: As of `plan_full`.

    Returns:
        A plan that does something; none if every picked file can stay as it is.
    """
    count = files.count_files(pick.run_count)
    work = _Work(
        files,
        pick.output_level,
        pick.output_level == find_highest_level(files.runs, settings),
        rewrite_all,
        delete_horizon_ms,
        _OlderKeys([files.ranges[index] for index in range(count, len(files))]),
    )
    for section in split_sections(files.ranges[:count]):
        if len(section) > 1 or files.sizes_bytes[section[0]] < settings.small_file_bytes:
            work.add(section)
            if work.waiting_bytes >= REWRITE_TARGET_FILES * settings.target_file_size_bytes:
                work.flush()
        else:
            work.flush()
            work.place_alone(section[0])
    work.flush()
    if not work.rewrites and not work.moves:
        return NoPlan(f"All {count} files that were picked may stay at level {pick.output_level} as they are.")
    return BucketPlan(
        files.partition,
        files.bucket,
        pick.rule,
        pick.why,
        pick.output_level,
        pick.is_full,
        tuple(work.rewrites),
        tuple(work.moves),
        tuple(sorted(work.kept)),
        delete_horizon_ms,
    )


class _OlderKeys:
    """The ranges in which files older than a pick may hold keys."""

    def __init__(self, ranges: Sequence[KeyRange]) -> None:
        by_lower = sorted(ranges, key=lambda found: found.lower or b"")
        self._lowers = [found.lower or b"" for found in by_lower]
        # None, above all keys, stays.
        self._highest = list(accumulate((found.upper for found in by_lower), _higher))

    def may_hold(self, wanted: KeyRange) -> bool:
        """Whether a key of this range may be in one of the files."""
        # Files that begin at or before the range's end; one of them reaches its beginning if the highest end does.
        place = len(self._lowers) if wanted.upper is None else bisect_right(self._lowers, wanted.upper)
        if place == 0:
            return False
        highest = self._highest[place - 1]
        return highest is None or highest >= (wanted.lower or b"")


@dataclass
class _Work:
    """The work on the picked files, collected section by section in key order."""

    files: BucketFiles
    output_level: int
    is_highest: bool
    rewrite_all: bool
    delete_horizon_ms: int | None
    older: _OlderKeys
    waiting: list[list[int]] = field(default_factory=list)
    waiting_bytes: int = 0
    rewrites: list[Rewrite] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)

    def add(self, section: list[int]) -> None:
        """Makes a section wait for its neighbours."""
        self.waiting.append(section)
        self.waiting_bytes += int(self.files.sizes_bytes[section].sum())

    def flush(self) -> None:
        """Rewrites the waiting sections together; a single file needs it no more than a large one does."""
        if len(self.waiting) == 1 and len(self.waiting[0]) == 1:
            self.place_alone(self.waiting[0][0])
        elif self.waiting:
            overlapping = sum(len(section) > 1 for section in self.waiting)
            alone = len(self.waiting) - overlapping
            reasons = []
            if overlapping:
                count = sum(len(section) for section in self.waiting) - alone
                reasons.append(f"{count} files overlap in {overlapping} section{'s' if overlapping > 1 else ''}")
            if alone:
                reasons.append(f"{alone} small file{'s' if alone > 1 else ''} beside each other or those")
            self._rewrite(self.waiting, " and ".join(reasons))
        self.waiting, self.waiting_bytes = [], 0

    def place_alone(self, index: int) -> None:
        """Moves a file that overlaps no other one, or keeps it, or rewrites it alone if deletes must be dropped."""
        file_id, level = int(self.files.file_ids[index]), int(self.files.levels[index])
        if self.rewrite_all:
            self._rewrite([[index]], "every file is to be written anew")
        elif self.is_highest and self._has_droppable_deletes(index):
            count = int(self.files.delete_counts[index])
            self._rewrite(
                [[index]], f"it overlaps nothing, but {count} of its rows are deletes that hide nothing any more"
            )
        elif level == self.output_level:
            self.kept.append(file_id)
        else:
            self.moves.append(Move(file_id, int(self.files.sizes_bytes[index]), level))

    def _has_droppable_deletes(self, index: int) -> bool:
        if not self.files.delete_counts[index]:
            return False
        # Rows of level 0 were committed at once; of compacted files only the latest commit is known, but they may have
        # older deletes. Files at the highest level are rewritten once all of their deletes can be dropped, so that a
        # file is not written repeatedly for a few.
        may_be_older = 0 < self.files.levels[index] < self.output_level
        return bool(may_be_older or _are_deletes_old(self.files, self.delete_horizon_ms)[index])

    def _rewrite(self, sections: Sequence[list[int]], why: str) -> None:
        indexes = np.array([index for section in sections for index in section], np.int64)
        latest = indexes[np.lexsort((self.files.order_keys[indexes, 1], self.files.order_keys[indexes, 0]))[-1]]
        ranges = self.files.ranges
        self.rewrites.append(
            Rewrite(
                tuple(Section(_split_runs(self.files, section)) for section in sections),
                tuple(sorted(self.files.file_ids[indexes].tolist())),
                int(self.files.sizes_bytes[indexes].sum()),
                int(self.files.row_counts[indexes].sum()),
                self.files.order_key_of(int(latest)),
                not any(self.older.may_hold(find_hull([ranges[i] for i in section])) for section in sections),
                f"{why[0].upper()}{why[1:]}.",
            )
        )


def _split_runs(files: BucketFiles, section: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The runs of a section, the oldest first, as ids of files: the bucket's runs, if they are in order.

    Files of a run that may share a key, which only happens if bounds are truncated, become separate runs. If places do
    not fall from run to run, each file becomes a run. Readers use places, too.
    """
    chains: list[list[int]] = []
    # Files of a run follow each other in key order; `section` is ascending.
    for index in section:
        last = chains[-1][-1] if chains else None
        if last is not None and files.levels[last] == files.levels[index] > 0 and _is_below(files, last, index):
            chains[-1].append(index)
        else:
            chains.append([index])
    spans = sorted(_Chain(min(places), max(places), chain) for chain in chains if (places := _places(files, chain)))
    if any(older.last > newer.first for older, newer in pairwise(spans)):
        return tuple((int(files.file_ids[index]),) for index in sorted(section, key=lambda i: _places(files, [i])[0]))
    return tuple(tuple(files.file_ids[span.indexes].tolist()) for span in spans)


@dataclass(frozen=True, order=True)
class _Chain:
    """Files without a common key, in the order of their keys, with the first and the last of their places."""

    first: tuple[int, int]
    last: tuple[int, int]
    indexes: list[int]


def _places(files: BucketFiles, indexes: Sequence[int]) -> list[tuple[int, int]]:
    return [(snapshot, ordinal) for snapshot, ordinal, _ in files.order_keys[list(indexes)].tolist()]


def _is_below(files: BucketFiles, index: int, other: int) -> bool:
    upper, lower = files.ranges[index].upper, files.ranges[other].lower
    return upper is not None and lower is not None and upper < lower


def _are_deletes_old(files: BucketFiles, delete_horizon_ms: int | None) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For each file whether all its deletes may be dropped, by their age alone."""
    if delete_horizon_ms is None:
        return np.ones(len(files), np.bool_)
    return files.order_keys[:, 2] < delete_horizon_ms


def _higher(left: bytes | None, right: bytes | None) -> bytes | None:
    return None if left is None or right is None else max(left, right)
