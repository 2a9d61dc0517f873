"""The rows of an append table's files that commits have removed by position: every read leaves them out.

A file's entry names the file with its positions, which is cumulative, and counts them. So the number of rows is known
without reading anything, and a file of positions that has lost some is noticed. Entries of files that a commit has just
added, as streams read them, name none.

Streams that show overwrites also read files of which an overwrite has brought rows back: these are named by the earlier
deletion vector, and no longer by the later one. All other rows of the file are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from lakelog.errors import DataCorrupted
from lakelog.format.types.schema import TableSchema
from lakelog.storage.merging.deletion_vector_file import read_deletion_vectors
from lakelog.storage.merging.deletion_vectors import DeletionVectorCache, RowIndices
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile

POSITIONS_TOGETHER: Final = 1 << 20
"""Positions that are read at once, 8 MiB of memory; those of a single file in any case."""


def has_removed_rows(file: LiveFile, schema: TableSchema) -> bool:
    """Whether reads leave rows of a file out by their positions; never in a table with a primary key. Pure."""
    return not schema.primary_key and bool(file.deletion_vector_path or file.shown_vector_path)


def count_removed(file: LiveFile, schema: TableSchema) -> int:
    """How many rows of a file commits have removed by position; 0 in a table with a primary key. Pure."""
    return 0 if schema.primary_key or not file.deletion_vector_path else file.delete_count


def split_by_vectors(files: Sequence[LiveFile]) -> Iterator[list[LiveFile]]:
    """Groups successive files whose positions are read together: few, and in one file. Pure."""
    together: list[LiveFile] = []
    count = 0
    for file in files:
        is_other = together and _paths(file) != _paths(together[0])
        if together and (is_other or count + file.delete_count > POSITIONS_TOGETHER):
            yield together
            together, count = [], 0
        together.append(file)
        count += file.delete_count
    if together:
        yield together


def find_removed_rows(
    store: ObjectStore, files: Sequence[LiveFile], cache: DeletionVectorCache | None = None
) -> tuple[RowIndices | None, ...]:
    """Reads which rows of some files of an append table are removed. Runs on executors; blocks on storage.

    Args:
        store: Where the table's files are.
        files: Files with the same deletion vector, or none, as of `split_by_vectors`.
        cache: Where to look first and to store the answer.

    Returns:
        For each file the rising positions to leave out; None: the whole file is read as it is.

    Raises:
        DataCorrupted: The file of positions is damaged or missing, or has not as many as the entry says; named.
    """
    path, shown_path = _paths(files[0])
    if shown_path:
        return tuple(_find_hidden(store, file, shown_path) for file in files)
    if not path:
        return (None,) * len(files)
    key = (store.location, path, tuple(file.path for file in files))
    if cache is not None and (known := cache.get(key)) is not None:
        return known
    by_path = read_deletion_vectors(store, path, {file.path: file.row_count for file in files}).by_path
    for file in files:
        count = len(by_path.get(file.path, ()))
        if count != file.delete_count:
            raise DataCorrupted(
                f"Deletion vectors {store.location}{path} name {count} rows of {file.path}, and {file.delete_count} "
                "were committed. Restore the file from a backup.",
                metadata={"path": path},
            )
    result = tuple(by_path[file.path] for file in files)
    if cache is not None:
        cache.put(key, result)
    return result


def _paths(file: LiveFile) -> tuple[str | None, str | None]:
    return file.deletion_vector_path, file.shown_vector_path


def _find_hidden(store: ObjectStore, file: LiveFile, shown_path: str) -> RowIndices:
    """The positions of all rows but those that an overwrite has brought back."""
    hidden = np.ones(file.row_count, np.bool_)
    hidden[read_deletion_vectors(store, shown_path, {file.path: file.row_count}).by_path[file.path]] = False
    (removed,) = find_removed_rows(store, [dataclasses.replace(file, shown_vector_path=None)])
    if removed is not None:
        hidden[removed] = True
    return np.flatnonzero(hidden)
