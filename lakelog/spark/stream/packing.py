"""Distributes the files of a batch over tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from lakelog.storage.parquet.live_file import LiveFile

T = TypeVar("T")


def sum_bytes(files: Iterable[LiveFile]) -> int:
    """The total size of files, in bytes."""
    return sum(file.size_bytes for file in files)


def pick_times(files: Iterable[LiveFile], times_ms: Mapping[int, int]) -> dict[int, int]:
    """The commit times of the snapshots that brought some files."""
    return {each: times_ms[each] for each in sorted({file.added_snapshot for file in files})}


def group_units(units: Sequence[Sequence[LiveFile]], size_bytes: int) -> Iterator[list[LiveFile]]:
    """The files of some units for each task: adjacent ones, as many as are within a size, at least one."""
    for places in pack([(place, sum_bytes(unit)) for place, unit in enumerate(units)], size_bytes):
        yield [file for place in sorted(places) for file in units[place]]


def pack(units: Iterable[tuple[T, int]], size_bytes: int) -> Iterator[set[T]]:
    """Groups of adjacent units, each with as many as are within a size, at least one.

    Args:
        units: What cannot be separated, with its size in bytes.
        size_bytes: The total size of a group, at most.
    """
    held: set[T] = set()
    held_bytes = 0
    for unit, unit_bytes in units:
        if held and held_bytes + unit_bytes > size_bytes:
            yield held
            held, held_bytes = set(), 0
        held.add(unit)
        held_bytes += unit_bytes
    if held:
        yield held
