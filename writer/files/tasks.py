"""The files of a batch on their way to the tasks that read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class TakenFile:
    """A file of a batch.

    Args:
        batch_id: The batch.
        number: Its place in the batch, from 0; of rows with one key, those of the later file count.
        path: Relative to the source's folder.
        size_bytes: When the batch was planned.
        modified_us: Likewise, in microseconds since the epoch.
    """

    batch_id: int
    number: int
    path: str
    size_bytes: int
    modified_us: int


def split_files(files: Sequence[TakenFile], splits: int) -> list[list[TakenFile]]:
    """Puts the files of a batch into at most `splits` groups of neighbours of about equal size. Pure.

    The order stays: all files of a group come before those of the next, which rows with one key need.
    """
    groups: list[list[TakenFile]] = []
    total = sum(file.size_bytes for file in files) + len(files) * _OPENING_BYTES
    filled = 0
    for file in files:
        if not groups or filled * splits >= total * len(groups):
            groups.append([])
        groups[-1].append(file)
        filled += file.size_bytes + _OPENING_BYTES
    return groups


_OPENING_BYTES: Final = 64 << 10
"""The cost of opening a file, in bytes that could have been read meanwhile."""
