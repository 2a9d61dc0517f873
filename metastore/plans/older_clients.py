"""What clients of earlier versions are refused, because they would show other rows, and compact them so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableName

from ..heavy_work import WorkThreads
from .entries import read_entries
from .parts import PlanChunkData

CLIENT_TOO_OLD: Final = "CLIENT_TOO_OLD"
"""The reason of the errors."""


def to_changed_columns(name: str, schema_id: int) -> InvalidArgument:
    """The error for a plan of a table whose columns were changed. Pure."""
    return InvalidArgument(
        f"Columns of {name} were changed, and this client is from before columns could change: it would show and "
        "compact older rows without their defaults, and miss some. Install the version of lakelog that the metastore "
        "has.",
        reason=CLIENT_TOO_OLD,
        metadata={"table": name, "schema_id": str(schema_id)},
    )


async def refuse_removed_rows(
    chunks: AsyncIterator[PlanChunkData], name: TableName, threads: WorkThreads
) -> AsyncIterator[PlanChunkData]:
    """The parts of a plan of an append table, for a client that would show the rows that commits have removed from it.

    Raises:
        InvalidArgument: At the end: rows of one of the plan's files are removed.
    """
    vectored: set[int] = set()
    left_out: set[int] = set()
    async for chunk in chunks:
        vectored.update(await threads.run(len(chunk.entries), _find_vectored, chunk.entries))
        left_out.update(chunk.without_file_ids)
        yield chunk
    # Any part may leave out files of any other.
    if vectored - left_out:
        raise InvalidArgument(
            f"Rows of {name} were deleted by a condition, and this client is from before that was possible in a table "
            "without a primary key: it would show them. Install the version of lakelog that the metastore has.",
            reason=CLIENT_TOO_OLD,
            metadata={"table": str(name)},
        )


def _find_vectored(entries: bytes) -> list[int]:
    files = read_entries(entries)
    found: list[int] = files.filter(files.column("deletion_vector_path").is_valid()).column("file_id").to_pylist()
    return found
