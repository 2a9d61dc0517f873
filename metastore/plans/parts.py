"""The parts in which a plan leaves the metastore."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakelog.format.tables.files import FILE_SCHEMA

from ..heavy_work import WorkThreads
from .entries import sort_entries, write_entries

MAX_ENTRIES: Final = 8192
"""Entries of one part: about 300 KB, well below the size of a message, and decoded in two milliseconds by a plan that
wants only some of them."""


@dataclass(frozen=True)
class PlanChunkData:
    """A part of a plan.

    Args:
        entries: Arrow IPC stream with FILE_SCHEMA.
        without_file_ids: Files of this or other parts that the plan leaves out, although entries list them.
    """

    entries: bytes
    without_file_ids: tuple[int, ...] = ()


def slice_entries(entries: pa.Table) -> list[PlanChunkData]:
    """Sorted entries as parts of a bounded size."""
    plain = entries.select(FILE_SCHEMA.names)
    return [
        PlanChunkData(write_entries(plain.slice(start, MAX_ENTRIES))) for start in range(0, plain.num_rows, MAX_ENTRIES)
    ]


async def stream_sorted(entries: pa.Table, threads: WorkThreads) -> AsyncIterator[PlanChunkData]:
    """Splits entries into parts of a bounded size, in the order of a plan; a thread sorts many entries."""
    ordered = await threads.run(entries.num_rows, sort_entries, entries)
    for start in range(0, ordered.num_rows, MAX_ENTRIES):
        part = ordered.slice(start, MAX_ENTRIES)
        for chunk in await threads.run(part.num_rows, slice_entries, part):
            yield chunk
