"""Positions of removed rows: written file by file, read for the files of a read, and never fewer than committed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from lakelog.errors import FILE_MISSING, DataCorrupted
from lakelog.format.commit.request import BucketRef
from lakelog.storage.merging.deletion_vector_file import read_deletion_vectors
from lakelog.storage.merging.removed_rows import find_removed_rows, split_by_vectors
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.write import removed_rows
from lakelog.storage.write.removed_rows import RemovedRowsWriter


def live(number: int, *, rows: int = 100, partition: bytes = b"") -> LiveFile:
    return LiveFile(number, f"data/a/{number}.parquet", partition, 0, 0, rows, 0, 1000, None, None, 0, 1, 1, 0, 0)


def named(file: LiveFile, path: str, count: int) -> LiveFile:
    return dataclasses.replace(file, deletion_vector_path=path, delete_count=count)


def test_what_is_written_is_read() -> None:
    store = MemoryStore("removed")
    writer = RemovedRowsWriter(store, "b")
    files = [live(1), live(2, partition=b"p"), live(3)]
    writer.remove(files[0], np.array([1, 5]))
    writer.remove(files[0], np.array([70]))
    writer.remove(files[1], np.arange(100))
    writer.remove(files[2], np.array([0, 99]))
    found = writer.finish()
    assert (found.row_count, found.file_ids) == (105, (2,))
    (group,) = found.groups
    assert (group.bucket, group.vector_files, group.delete_counts) == (BucketRef(b"", 0), (1, 3), (3, 2))
    (path,) = found.paths
    together = [named(files[0], path, 3), named(files[2], path, 2)]
    first, second = find_removed_rows(store, together)
    assert first is not None
    assert second is not None
    assert (first.tolist(), second.tolist()) == ([1, 5, 70], [0, 99])
    # What is removed later comes to what is removed already.
    again = RemovedRowsWriter(store, "c")
    again.remove(together[0], np.array([0, 3]))
    (path,) = again.finish().paths
    (both,) = find_removed_rows(store, [named(files[0], path, 5)])
    assert both is not None
    assert both.tolist() == [0, 1, 3, 5, 70]


def test_many_files_are_written_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removed_rows, "_FILES_TOGETHER", 2)
    store = MemoryStore("removed")
    writer = RemovedRowsWriter(store, "b")
    for number in range(1, 6):
        writer.remove(live(number), np.array([number]))
    assert len(writer.paths) == 2
    found = writer.finish()
    assert [group.vector_files for group in found.groups] == [(1, 2), (3, 4), (5,)]
    # Nothing more comes of another end.
    assert writer.finish() == found


def test_lost_positions_are_noticed() -> None:
    store = MemoryStore("removed")
    writer = RemovedRowsWriter(store, "b")
    writer.remove(live(1), np.array([1, 5]))
    (path,) = writer.finish().paths
    for file in (named(live(1), path, 3), named(live(2), path, 1)):
        with pytest.raises(DataCorrupted, match="were committed"):
            find_removed_rows(store, [file])
    with pytest.raises(DataCorrupted, match="none of its 5 rows"):
        find_removed_rows(store, [named(live(1, rows=5), path, 2)])
    with pytest.raises(DataCorrupted) as error:
        find_removed_rows(store, [named(live(1), "data/b/other.parquet", 2)])
    assert error.value.reason == FILE_MISSING


def test_only_the_positions_of_the_files_read_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore("removed")
    writer = RemovedRowsWriter(store, "b")
    for number in range(1, 4):
        writer.remove(live(number), np.array([number]))
    (path,) = writer.finish().paths
    assert set(read_deletion_vectors(store, path, {"data/a/2.parquet": 100}).by_path) == {"data/a/2.parquet"}


def test_files_are_read_together_if_they_share_a_vector() -> None:
    files = [live(1), named(live(2), "x", 3), named(live(3), "x", 4), named(live(4), "y", 1), live(5), live(6)]
    assert [[file.file_id for file in group] for group in split_by_vectors(files)] == [[1], [2, 3], [4], [5, 6]]
