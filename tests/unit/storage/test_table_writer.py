"""Writes into many partitions: how many files are open, and who waits for the disk."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from lakelog.format.types.schema import FIELD_ID_KEY, TableSchema
from lakelog.options.values import TableOptions
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.write.table_writer import TableWriter

_COLUMNS = pa.schema(
    [pa.field(name, pa.int64(), False, {FIELD_ID_KEY: str(place)}) for place, name in enumerate(["p", "v"], 1)]
)


class WatchedStore(MemoryStore):
    """Notes who makes files durable, and how many were open at once at most."""

    def __init__(self) -> None:
        super().__init__()
        self.committed_by: set[int] = set()
        self.open_files = self.most_open_files = 0

    def create(self, path: str) -> Any:
        writer = super().create(path)
        commit = writer.commit
        self.open_files += 1
        self.most_open_files = max(self.most_open_files, self.open_files)

        def watched() -> int:
            self.committed_by.add(threading.get_ident())
            self.open_files -= 1
            return commit()

        writer.commit = watched  # type: ignore[method-assign]
        return writer


def make_writer(store: WatchedStore, key: tuple[str, ...] = (), **options: str) -> TableWriter:
    given = {name.replace("_", "-"): value for name, value in options.items()}
    return TableWriter(store, TableSchema(0, _COLUMNS, key, ("p",)), TableOptions(given), "a")


@pytest.mark.parametrize("key", [(), ("p", "v")])
@pytest.mark.parametrize(("partitions", "by_threads"), [(3, False), (30, True)])
def test_many_files_wait_for_the_disk_in_two_threads(key: tuple[str, ...], partitions: int, by_threads: bool) -> None:
    store = WatchedStore()
    writer = make_writer(store, key)
    writer.write(pa.table({"p": range(partitions), "v": range(partitions)}, schema=_COLUMNS))
    assert len(writer.finish()) == partitions
    assert (threading.get_ident() not in store.committed_by) is by_threads
    assert len(store.committed_by) == (2 if by_threads else 1)


class SlowFirstStore(WatchedStore):
    """The first file to be made waits until the other thread has made one, so that the threads pass each other."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = threading.Event()
        self.created = 0

    def create(self, path: str) -> Any:
        self.created += 1
        if self.created == 1:
            assert self.passed.wait(10)
        else:
            self.passed.set()
        return super().create(path)


@pytest.mark.parametrize("key", [(), ("p", "v")])
def test_files_are_named_by_their_place_whichever_thread_comes_first(key: tuple[str, ...]) -> None:
    rows = pa.table({"p": range(30), "v": range(30)}, schema=_COLUMNS)
    names = []
    for store in (WatchedStore(), SlowFirstStore(), SlowFirstStore()):
        writer = make_writer(store, key)
        writer.write(rows)
        names.append([(file.partition, file.path) for file in writer.finish()])
    assert names[0] == names[1] == names[2]
    assert [path for _, path in names[0]] == sorted(path for _, path in names[0])


def test_files_of_many_partitions_are_not_all_open_at_once() -> None:
    store = WatchedStore()
    writer = make_writer(store, write_buffer_size="64 kb")
    rows = pa.table({"p": [n % 200 for n in range(20_000)], "v": range(20_000)}, schema=_COLUMNS)
    writer.write(rows)
    files = writer.finish()
    assert sum(file.row_count for file in files) == 20_000
    assert len({file.partition for file in files}) == 200
    assert 20 < store.most_open_files <= 75
