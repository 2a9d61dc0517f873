"""The files of a batch on their way to the tasks that read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import pyarrow as pa


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


TAKEN_SCHEMA: Final = pa.schema(
    [
        pa.field("batch_id", pa.int64()),
        pa.field("number", pa.int64()),
        pa.field("path", pa.string()),
        pa.field("size_bytes", pa.int64()),
        pa.field("modified_us", pa.int64()),
    ]
)
TAKEN_DDL: Final = "batch_id bigint, number bigint, path string, size_bytes bigint, modified_us bigint"


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


def emit_files(files: Sequence[TakenFile]) -> Iterator[pa.RecordBatch]:
    """The files of one group as a batch of `TAKEN_SCHEMA`. Runs on executors."""
    yield pa.RecordBatch.from_pylist([asdict(file) for file in files], schema=TAKEN_SCHEMA)
