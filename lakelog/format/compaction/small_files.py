"""Append tables without buckets: small files are packed into tasks, partition by partition (semantics 6.2).

Objectives, which conflict: few small files; every row is rewritten seldom; no task waits long for more files; nothing
is remembered about files that are large enough, so a table of a million files costs nothing.

The state is the small files of each partition that no task has taken yet, and how many scans ago the partition last got
files. A scan brings the files that commits have added since the scan before, compactions included, and plans. Files are
taken smallest first; a bin closes as soon as it has two files and twice the target size, where each file counts a
little more than its size for its opening. The rest becomes a task of its own if it has enough files; else it waits, and
is combined after some scans in vain. These are files of about one size: a file that is larger than all smaller ones
together is left for later. Otherwise the output of a few tiny files would be rewritten with each few that follow, all
the way to the target size. A single file is forgotten some scans later: it is found again when the partition's small
files are listed again.

All of it is pure; states are values, and the cost of planning depends on the scan's files and the waiting partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.format.compaction.plan import AppendPlan
from lakelog.format.compaction.settings import CompactionSettings

COMPACT_AGE: Final = 5
"""Scans after which two or more files are compacted though nothing joined them: at one scan a minute, six minutes."""

FORGET_AGE: Final = 10
"""Scans after which a partition with a single small file is forgotten, so that idle partitions cost no memory."""

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SmallFiles:
    """The small files of one partition that no task has taken.

    Args:
        file_ids: Int64, ascending.
        sizes_bytes: Int64, one per file.
        age: Scans in vain since the partition last got files.
    """

    file_ids: _Numbers
    sizes_bytes: _Numbers
    age: int = 0


@dataclass(frozen=True)
class SmallFileState:
    """The state between two scans: the small files by encoded partition. Begins empty."""

    partitions: Mapping[bytes, SmallFiles] = field(default_factory=dict)

    @property
    def file_count(self) -> int:
        """How many files wait."""
        return sum(len(known.file_ids) for known in self.partitions.values())


@dataclass(frozen=True)
class PackedScan:
    """The result of a scan.

    Args:
        plans: Tasks, by partition; each file is in one at most.
        state: The state after it, without the files of the tasks.
    """

    plans: tuple[AppendPlan, ...]
    state: SmallFileState

    @property
    def reason(self) -> str:
        """Why no more is due, in a sentence for people."""
        if not self.state.partitions:
            return "No small file waits."
        return f"{self.state.file_count} small files in {len(self.state.partitions)} partitions wait for others."


def add_files(state: SmallFileState, added: pa.Table, settings: CompactionSettings) -> SmallFileState:
    """Adds the small ones of some new files to the state. Pure and vectorised.

    Args:
        state: The state.
        added: Columns `file_id`, `partition` and `size_bytes` of `lakelog.format.tables.files.FILE_SCHEMA`; files that
            are known already are not counted twice.
        settings: The table's settings.

    Returns:
        A state in which all partitions that got files, of any size, have age 0.
    """
    if added.num_rows == 0:
        return state
    partitions = dict(state.partitions)
    codes = added["partition"].combine_chunks().dictionary_encode()
    numbers = codes.indices.to_numpy()
    file_ids, sizes = added["file_id"].to_numpy(), added["size_bytes"].to_numpy()
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(len(codes.dictionary) + 1))
    for number, partition in enumerate(codes.dictionary.to_pylist()):
        members = order[starts[number] : starts[number + 1]]
        small = members[sizes[members] < settings.small_file_bytes]
        known = partitions.get(partition, _NOTHING)
        ids, firsts = np.unique(np.concatenate([known.file_ids, file_ids[small]]), return_index=True)
        partitions[partition] = SmallFiles(ids, np.concatenate([known.sizes_bytes, sizes[small]])[firsts])
    return SmallFileState(partitions)


def remove_files(state: SmallFileState, file_ids: Sequence[int]) -> SmallFileState:
    """Removes files that are no longer live from the state, for instance after an overwrite. Pure.

    Args:
        state: The state.
        file_ids: The removed files; unknown ones do not matter.
    """
    removed = np.array(file_ids, np.int64)
    partitions: dict[bytes, SmallFiles] = {}
    for partition, known in state.partitions.items():
        left = ~np.isin(known.file_ids, removed)
        if left.all():
            partitions[partition] = known
        elif left.any():
            partitions[partition] = SmallFiles(known.file_ids[left], known.sizes_bytes[left], known.age)
    return SmallFileState(partitions)


def plan_small_files(state: SmallFileState, settings: CompactionSettings) -> PackedScan:
    """Plans the tasks of one scan, after `add_files` with its files. Pure.

    Returns:
        Tasks, each of which may be done, committed or dropped without the others, and the state after them. A partition
        without waiting files, or with a single file for more than `FORGET_AGE` scans, is not in it.
    """
    plans: list[AppendPlan] = []
    partitions: dict[bytes, SmallFiles] = {}
    for partition, known in state.partitions.items():
        order = np.argsort(known.sizes_bytes, kind="stable")
        sizes = known.sizes_bytes[order]
        bins, rest = _pack(sizes, settings)
        if len(rest) >= max(settings.min_file_count, 2):
            alike = _count_alike(sizes[rest], 2)
            bins, rest = [*bins, rest[:alike]], rest[alike:]
        age = known.age
        if bins:
            why = "Small files fill a file together, or are enough."
        else:
            age += 1
            alike = _count_alike(sizes[rest], 1)
            if age > COMPACT_AGE and alike > 1:
                bins, rest = [rest[:alike]], rest[alike:]
                why = f"{len(known.file_ids)} small files have waited for others for {age} scans."
        plans.extend(_to_plan(partition, known, order[chosen], why) for chosen in bins)
        if len(rest) and age <= FORGET_AGE:
            left = np.sort(order[rest])
            partitions[partition] = SmallFiles(known.file_ids[left], known.sizes_bytes[left], age)
    return PackedScan(tuple(plans), SmallFileState(partitions))


def plan_all_small_files(
    files: pa.Table, settings: CompactionSettings, *, only_alike: bool = False
) -> tuple[AppendPlan, ...]:
    """Plans the compaction of all small files at once: nothing waits. Pure.

    Args:
        files: As of `add_files`, the live files of the requested partitions; large ones are ignored.
        settings: The table's settings.
        only_alike: There is no request, the files have only waited: among those that fill no file, a file that is
            larger than all smaller ones together is left.

    Returns:
        Tasks as of `plan_small_files`; the rest of each partition, if it has two or more files, is one of them.
    """
    plans: list[AppendPlan] = []
    why = "All small files were asked for." if not only_alike else "Small files have waited for others for long."
    for partition, known in add_files(SmallFileState(), files, settings).partitions.items():
        order = np.argsort(known.sizes_bytes, kind="stable")
        sizes = known.sizes_bytes[order]
        bins, rest = _pack(sizes, settings)
        if only_alike:
            rest = rest[: _count_alike(sizes[rest], 1)]
        if len(rest) > 1:
            bins.append(rest)
        plans.extend(_to_plan(partition, known, order[chosen], why) for chosen in bins)
    return tuple(plans)


def _pack(sizes_bytes: _Numbers, settings: CompactionSettings) -> tuple[list[_Numbers], _Numbers]:
    """Positions of the files of each bin, and of the others, which ascend in size; one step per bin, not per file."""
    ends = np.cumsum(sizes_bytes + settings.open_file_cost_bytes)
    indices = np.arange(len(sizes_bytes))
    bins: list[_Numbers] = []
    start, filled = 0, 0
    while start < len(sizes_bytes):
        full = int(np.searchsorted(ends, filled + 2 * settings.target_file_size_bytes, side="left"))
        # A bin of one file would only be written as it is.
        last = max(full, start + 1)
        if last >= len(sizes_bytes):
            break
        bins.append(indices[start : last + 1])
        start, filled = last + 1, int(ends[last])
    return bins, indices[start:]


def _count_alike(sizes_bytes: _Numbers, least: int) -> int:
    """How many of the smallest files are combined: no further one is larger than all before it, except the first ones.

    There are so few of 2 or more files whose sizes double that each byte is rewritten as often as their number has
    digits, and not once for each task.

    Args:
        sizes_bytes: Ascending.
        least: This many are combined in any case.
    """
    before = np.cumsum(sizes_bytes)[:-1]
    too_large = np.flatnonzero(sizes_bytes[1:] > before) + 1
    too_large = too_large[too_large >= least]
    return int(too_large[0]) if len(too_large) else len(sizes_bytes)


def _to_plan(partition: bytes, known: SmallFiles, chosen: _Numbers, why: str) -> AppendPlan:
    # In the order of arrival, so that columns that grow with time stay narrow in each row group.
    indexes = np.sort(chosen)
    size_bytes = int(known.sizes_bytes[indexes].sum())
    return AppendPlan(partition, 0, tuple(known.file_ids[indexes].tolist()), size_bytes, None, why)


_NOTHING: Final = SmallFiles(np.empty(0, np.int64), np.empty(0, np.int64))
