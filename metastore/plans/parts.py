"""The parts in which a plan leaves the metastore."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from lakelog.format.tables.files import FILE_SCHEMA, STATISTICS_FIELD

from ..heavy_work import WorkThreads
from .entries import sort_entries, write_entries

MAX_ENTRIES: Final = 8192
"""Entries of one part: about 300 KB, well below the size of a message, and decoded in two milliseconds by a plan that
wants only some of them."""

MAX_ENTRIES_WITH_STATISTICS: Final = 512
"""Entries of one part that has their statistics: at most two MB, as an entry has at most 4 KB."""


@dataclass(frozen=True)
class PlanChunkData:
    """A part of a plan.

    Args:
        entries: Arrow IPC stream with FILE_SCHEMA and, if they are wanted, STATISTICS_FIELD.
        without_file_ids: Files of this or other parts that the plan leaves out, although entries list them.
    """

    entries: bytes
    without_file_ids: tuple[int, ...] = ()


def slice_entries(entries: pa.Table, *, with_statistics: bool = False) -> list[PlanChunkData]:
    """Sorted entries as parts of a bounded size; with the column `statistics` only if it is wanted."""
    names = [*FILE_SCHEMA.names, STATISTICS_FIELD.name] if with_statistics else FILE_SCHEMA.names
    size = MAX_ENTRIES_WITH_STATISTICS if with_statistics else MAX_ENTRIES
    wanted = entries.select(names)
    return [PlanChunkData(write_entries(wanted.slice(start, size))) for start in range(0, wanted.num_rows, size)]


async def stream_sorted(
    entries: pa.Table, threads: WorkThreads, *, with_statistics: bool = False
) -> AsyncIterator[PlanChunkData]:
    """Splits entries into parts of a bounded size, in the order of a plan; a thread sorts many entries."""
    ordered = await threads.run(entries.num_rows, sort_entries, entries)
    for start in range(0, ordered.num_rows, MAX_ENTRIES):
        part = ordered.slice(start, MAX_ENTRIES)
        slice_part = partial(slice_entries, with_statistics=with_statistics)
        for chunk in await threads.run(part.num_rows, slice_part, part):
            yield chunk
