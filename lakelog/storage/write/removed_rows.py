"""Writes which rows of an append table's files a commit removes: files of positions, and the groups that name them.

Memory holds the positions of one data file, and the encoded positions of those that share a file with it. A file of
which no row is left is removed as a whole. So is one whose rows all fulfil a condition on its partition, without being
read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from lakelog.format.commit.request import BucketRef, CompactionGroup
from lakelog.storage.merging.deletion_vector_file import DeletionVectorWriter
from lakelog.storage.merging.deletion_vectors import RowIndices
from lakelog.storage.merging.removed_rows import POSITIONS_TOGETHER, find_removed_rows
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile

_FILES_TOGETHER: Final = 1000
"""Data files whose positions share a file: its footer lists all of them, and each reader of one reads the footer."""


@dataclass(frozen=True)
class RemovedRows:
    """The rows that a commit removes by position.

    Args:
        groups: What its change says of files that keep some rows.
        file_ids: Files without any row left.
        row_count: How many rows go.
        paths: The files of positions that were written.
    """

    groups: tuple[CompactionGroup, ...]
    file_ids: tuple[int, ...]
    row_count: int
    paths: tuple[str, ...]


class RemovedRowsWriter:
    """Takes the rows to remove, file by file, and writes their positions as it goes. For one thread.

    Args:
        store: Where the table's files are.
        attempt_id: The attempt that owns the files of positions.
    """

    def __init__(self, store: ObjectStore, attempt_id: str) -> None:
        self._store = store
        self._attempt_id = attempt_id
        self._file: LiveFile | None = None
        self._parts: list[RowIndices] = []
        self._vectors: DeletionVectorWriter | None = None
        self._held: list[tuple[LiveFile, int]] = []
        self._groups: list[CompactionGroup] = []
        self._file_ids: list[int] = []
        self.row_count = 0
        """How many rows go, of complete files."""
        self.paths: Final[list[str]] = []
        """The files of positions written so far."""

    def remove(self, file: LiveFile, positions: RowIndices) -> None:
        """Removes rows of a file. Blocks on storage when a file is complete.

        Args:
            file: Its live entry; calls for one file come one after the other.
            positions: Rising, also from call to call; none of them is removed already.
        """
        if self._file is None or file.file_id != self._file.file_id:
            self._finish_file()
            self._file = file
        self._parts.append(positions)

    def remove_file(self, file: LiveFile) -> None:
        """Removes all rows of a file that are left, without reading it."""
        self._file_ids.append(file.file_id)
        self.row_count += file.row_count - file.delete_count

    def finish(self) -> RemovedRows:
        """Writes the rest, and returns what the commit says of it. Blocks."""
        self._finish_file()
        self._finish_vectors()
        return RemovedRows(tuple(self._groups), tuple(self._file_ids), self.row_count, tuple(self.paths))

    def _finish_file(self) -> None:
        file, parts = self._file, self._parts
        self._file, self._parts = None, []
        count = sum(map(len, parts))
        if file is None or count == 0:
            return
        if count == file.row_count - file.delete_count:
            self.remove_file(file)
            return
        self.row_count += count
        (before,) = find_removed_rows(self._store, [file])
        positions = np.concatenate(parts if before is None else [before, *parts])
        if before is not None:
            positions.sort()
        if self._vectors is None:
            path = f"data/{self._attempt_id}/removed-{len(self.paths):05d}.parquet"
            self._vectors = DeletionVectorWriter(self._store, path)
        self._vectors.add(file.path, positions)
        self._held.append((file, len(positions)))
        if len(self._held) == _FILES_TOGETHER or sum(rows for _, rows in self._held) >= POSITIONS_TOGETHER:
            self._finish_vectors()

    def _finish_vectors(self) -> None:
        vectors, held = self._vectors, self._held
        self._vectors, self._held = None, []
        if vectors is None:
            return
        # Before it is written: a file whose writing fails may be there all the same.
        self.paths.append(vectors.path)
        vectors.finish()
        buckets: dict[BucketRef, list[tuple[LiveFile, int]]] = {}
        for file, count in held:
            buckets.setdefault(BucketRef(file.partition, file.bucket), []).append((file, count))
        for bucket, files in buckets.items():
            self._groups.append(
                CompactionGroup(
                    bucket,
                    vector_files=tuple(file.file_id for file, _ in files),
                    deletion_vector_path=vectors.path,
                    delete_counts=tuple(count for _, count in files),
                )
            )
