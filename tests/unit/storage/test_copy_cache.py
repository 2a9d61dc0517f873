"""Copies within their bounds: on disk, in memory, in age; shared, evicted under use, damaged."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import PermissionDenied, ResourceExhausted
from lakelog.format.types.defaults import INITIAL_DEFAULT_KEY
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.storage.lookup import copy_cache, local_copy
from lakelog.storage.lookup.copy_cache import CacheLimits, CopyCache, find_cache_folder
from lakelog.storage.lookup.local_copy import LocalCopy
from lakelog.storage.lookup.sought_keys import SoughtKeys
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.parquet.live_file import LiveFile

from .data_files import write_data_file

SCHEMA = TableSchema(
    3,
    assign_field_ids(pa.schema([pa.field("k", pa.int64(), False), ("v", pa.string()), ("w", pa.int32())])),
    ("k",),
    (),
)
FIELDS = list(SCHEMA.arrow)
UNLIMITED = CacheLimits(None, 1 << 30, 3_600_000)


class SetClock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1000

    def sleep(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


def write_files(store: MemoryStore, count: int, rows: int = 1000) -> list[LiveFile]:
    table = pa.table({"k": range(rows), "v": ["x"] * rows, "w": [1] * rows}, schema=SCHEMA.arrow)
    return [write_data_file(store, f"data/{n}/f", SCHEMA, table, order=n) for n in range(1, count + 1)]


def copies(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def test_a_copy_is_made_once_and_shared(tmp_path: Path) -> None:
    store = MemoryStore()
    (file,) = write_files(store, 1)
    first, second = CopyCache(tmp_path / "t", UNLIMITED), CopyCache(tmp_path / "t", UNLIMITED)
    assert first.find(file, SCHEMA, ["k"]) is None
    made = first.obtain(store, file, SCHEMA, FIELDS, ["k"])
    assert made.row_count == 1000
    assert first.obtain(store, file, SCHEMA, FIELDS, ["k"]) is made
    assert second.obtain(store, file, SCHEMA, FIELDS, ["k"]).row_count == 1000
    assert (first.statistics.copies_made, second.statistics.copies_made) == (1, 0)
    assert second.statistics.hits == 1 == first.statistics.hits
    assert first.statistics.bytes_made == copies(tmp_path / "t")[0].stat().st_size


def test_threads_that_want_the_same_copy_make_it_once(tmp_path: Path) -> None:
    store = MemoryStore()
    (file,) = write_files(store, 1, 50_000)
    caches = [CopyCache(tmp_path, UNLIMITED) for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: caches[n % 4].obtain(store, file, SCHEMA, FIELDS, ["k"]), range(8)))
    assert {copy.row_count for copy in found} == {50_000}
    assert sum(cache.statistics.copies_made for cache in caches) == 1


def test_a_copy_gets_more_columns_and_keeps_those_it_had(tmp_path: Path) -> None:
    store = MemoryStore()
    (file,) = write_files(store, 1)
    cache = CopyCache(tmp_path, UNLIMITED)
    cache.obtain(store, file, SCHEMA, FIELDS[:2], ["k"])
    assert cache.find(file, SCHEMA, ["w"]) is None
    assert cache.obtain(store, file, SCHEMA, [FIELDS[0], FIELDS[2]], ["k"]).column_names == {"k", "v", "w"}
    assert len(copies(tmp_path)) == 1


def test_another_schema_has_another_copy(tmp_path: Path) -> None:
    store = MemoryStore()
    (file,) = write_files(store, 1)
    cache = CopyCache(tmp_path, UNLIMITED)
    cache.obtain(store, file, SCHEMA, FIELDS, ["k"])
    assert cache.find(file, TableSchema(4, SCHEMA.arrow, ("k",), ()), ["k"]) is None


def test_a_version_that_was_lost_with_its_database_leaves_no_values(tmp_path: Path) -> None:
    store = MemoryStore()
    (file,) = write_files(store, 1)
    cache = CopyCache(tmp_path, UNLIMITED)
    made = {}
    for default in (b"5", b"7"):
        added = pa.field("n", pa.int64(), metadata={b"PARQUET:field_id": b"4", INITIAL_DEFAULT_KEY: default})
        schema = TableSchema(4, SCHEMA.arrow.append(added), ("k",), ())
        copy = cache.obtain(store, file, schema, list(schema.arrow), ["k"])
        made[default] = copy.take(np.array([0]), [added]).column("n").to_pylist()
    assert made == {b"5": [5], b"7": [7]}


def test_what_is_too_much_on_disk_goes_the_least_used_first(tmp_path: Path) -> None:
    store, clock = MemoryStore(), SetClock()
    files = write_files(store, 4)
    probe = CopyCache(tmp_path / "probe", UNLIMITED)
    size = probe.obtain(store, files[0], SCHEMA, FIELDS, ["k"]).size_bytes
    # Too much is deleted down to nine tenths.
    cache = CopyCache(tmp_path / "t", CacheLimits(int(3.4 * size), 1 << 30, 3_600_000), clock)
    for file in files[:3]:
        cache.obtain(store, file, SCHEMA, FIELDS, ["k"])
        age_all(tmp_path / "t", clock, 5000)
    assert cache.find(files[0], SCHEMA, ["k"]) is not None
    used = cache.find(files[1], SCHEMA, ["k"])
    cache.obtain(store, files[3], SCHEMA, FIELDS, ["k"])
    assert [cache.find(file, SCHEMA, ["k"]) is not None for file in files] == [True, True, False, True]
    assert (cache.statistics.copies_evicted, cache.statistics.bytes_evicted) == (1, size)
    assert used is not None
    assert used.row_count == 1000


def age_all(folder: Path, clock: SetClock, ms: int) -> None:
    """Lets time pass, for files written with the machine's own clock too."""
    clock.ms += ms
    for path in copies(folder):
        if path.stat().st_mtime > clock.ms / 1000:
            os.utime(path, ((clock.ms - ms) / 1000,) * 2)


def test_a_copy_larger_than_the_limit_serves_the_one_who_asked(tmp_path: Path) -> None:
    store = MemoryStore()
    (file,) = write_files(store, 1)
    cache = CopyCache(tmp_path, CacheLimits(10, 1 << 30, 3_600_000))
    copy = cache.obtain(store, file, SCHEMA, FIELDS, ["k"])
    assert copies(tmp_path) == []
    assert copy.find(SoughtKeys(pa.table({"k": [7]})), np.array([0])).tolist() == [7]


def test_what_is_not_used_for_a_while_goes(tmp_path: Path) -> None:
    store, clock = MemoryStore(), SetClock()
    files = write_files(store, 2)
    cache = CopyCache(tmp_path, CacheLimits(None, 1 << 30, 10_000), clock)
    for file in files:
        cache.obtain(store, file, SCHEMA, FIELDS, ["k"])
    for path in copies(tmp_path):
        os.utime(path, (clock.ms / 1000,) * 2)
    clock.ms += 9_000
    assert cache.find(files[0], SCHEMA, ["k"]) is not None
    clock.ms += 9_000
    cache.evict()
    assert cache.find(files[0], SCHEMA, ["k"]) is not None
    assert cache.find(files[1], SCHEMA, ["k"]) is None


@pytest.mark.parametrize("seldom", [True, False], ids=["protected", "control"])
def test_the_folder_is_looked_through_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seldom: bool) -> None:
    """After an hour of small commits it has tens of thousands of copies: to look at all at each commit took 0.3 s."""
    if not seldom:
        monkeypatch.setattr(copy_cache, "_LOOK_EVERY_MS", 0)
    looks: list[object] = []
    scandir: Any = os.scandir

    def count(path: Path) -> Any:
        looks.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", count)
    store, clock = MemoryStore(), SetClock()
    files = write_files(store, 12)
    cache = CopyCache(tmp_path, CacheLimits(None, 1 << 30, 3_600_000), clock)
    for file in files[:10]:
        cache.obtain(store, file, SCHEMA, FIELDS, ["k"])
    assert len(looks) == (1 if seldom else 10)
    clock.ms += 61_000
    cache.evict()
    cache.evict()
    assert len(looks) == (2 if seldom else 12)
    # A clock that is set back hides nothing.
    clock.ms -= 3_600_000
    cache.evict()
    assert len(looks) == (3 if seldom else 13)


def test_the_folder_is_looked_through_when_a_process_has_made_too_much(tmp_path: Path) -> None:
    store, clock = MemoryStore(), SetClock()
    files = write_files(store, 40)
    size = CopyCache(tmp_path / "probe", UNLIMITED).obtain(store, files[0], SCHEMA, FIELDS, ["k"]).size_bytes
    cache = CopyCache(tmp_path / "t", CacheLimits(10 * size, 1 << 30, 3_600_000), clock)
    for file in files:
        cache.obtain(store, file, SCHEMA, FIELDS, ["k"])
        assert sum(path.stat().st_size for path in copies(tmp_path / "t")) <= 10 * size
    assert len(copies(tmp_path / "t")) >= 9


def test_half_written_copies_are_evicted_and_damaged_ones_made_again(tmp_path: Path) -> None:
    store, clock = MemoryStore(), SetClock()
    (file,) = write_files(store, 1)
    cache = CopyCache(tmp_path, CacheLimits(None, 1, 10_000), clock)
    cache.obtain(store, file, SCHEMA, FIELDS, ["k"])
    (path,) = copies(tmp_path)
    half = tmp_path / f".{path.name}.0123"
    half.write_bytes(b"ARROW1")
    os.utime(half, (clock.ms / 1000,) * 2)
    cache.evict()
    assert half.exists(), "somebody may be writing it"
    clock.ms += 11_000
    os.utime(path, (clock.ms / 1000,) * 2)
    cache.evict()
    assert not half.exists()
    for damage in (path.read_bytes()[:-200], b"", os.urandom(5000)):
        path.write_bytes(damage)
        fresh = CopyCache(tmp_path, UNLIMITED)
        assert fresh.find(file, SCHEMA, ["k"]) is None
        assert fresh.obtain(store, file, SCHEMA, FIELDS, ["k"]).find(
            SoughtKeys(pa.table({"k": [5]})), np.array([0])
        ).tolist() == [5]


def test_a_copy_whose_bytes_changed_is_recreated(tmp_path: Path) -> None:
    store = MemoryStore()
    (file,) = write_files(store, 1)
    cache = CopyCache(tmp_path, UNLIMITED)
    cache.obtain(store, file, SCHEMA, FIELDS, ["k"])
    (path,) = copies(tmp_path)
    whole = path.read_bytes()
    # The values of a column lie in the middle: nothing but the checksum tells that they are others.
    path.write_bytes(whole[: len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1]) + whole[len(whole) // 2 + 1 :])
    fresh = CopyCache(tmp_path, UNLIMITED)
    assert fresh.find(file, SCHEMA, ["k"]) is None
    fresh.obtain(store, file, SCHEMA, FIELDS, ["k"])
    assert fresh.statistics.copies_made == 1
    assert path.read_bytes() == whole


@pytest.mark.parametrize("by", [-1_000_000, -4096, 4096], ids=["emptied", "cut", "grown"])
def test_an_open_copy_whose_file_was_resized_is_recreated_and_not_touched(tmp_path: Path, by: int) -> None:
    """Reading what was cut would end the process."""
    store = MemoryStore()
    files = write_files(store, 2, 5000)
    cache = CopyCache(tmp_path, UNLIMITED)
    (made, other) = (cache.obtain(store, file, SCHEMA, FIELDS, ["k"]) for file in files)
    (path,) = (each for each in copies(tmp_path) if cache._open.get(each.name) is made)
    os.truncate(path, max(made.size_bytes + by, 0))
    assert cache.find(files[0], SCHEMA, ["k"]) is None
    again = cache.obtain(store, files[0], SCHEMA, FIELDS, ["k"])
    assert again is not made
    assert again.find(SoughtKeys(pa.table({"k": [4999]})), np.array([0])).tolist() == [4999]
    assert cache.find(files[1], SCHEMA, ["k"]) is other
    assert cache.statistics.copies_made == 3


def test_an_open_copy_whose_file_was_deleted_or_replaced_goes_on_to_work(tmp_path: Path) -> None:
    store = MemoryStore()
    (file,) = write_files(store, 1)
    first, second = CopyCache(tmp_path, UNLIMITED), CopyCache(tmp_path, UNLIMITED)
    made = first.obtain(store, file, SCHEMA, FIELDS[:2], ["k"])
    copies(tmp_path)[0].unlink()
    assert first.find(file, SCHEMA, ["k"]) is made
    second.obtain(store, file, SCHEMA, FIELDS, ["k"])
    assert copies(tmp_path)[0].stat().st_size != made.size_bytes
    assert first.find(file, SCHEMA, ["k"]) is made
    assert made.find(SoughtKeys(pa.table({"k": [7]})), np.array([0])).tolist() == [7]


def test_a_copy_is_checked_once_in_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    first, second = write_files(store, 2)
    CopyCache(tmp_path, UNLIMITED).obtain(store, first, SCHEMA, FIELDS, ["k"])
    checked: list[Path] = []
    check = local_copy._check

    def note(path: Path) -> None:
        checked.append(path)
        check(path)

    monkeypatch.setattr(local_copy, "_check", note)
    cache = CopyCache(tmp_path, CacheLimits(None, 1, 3_600_000))
    for _ in range(3):
        # Memory holds one of them, so each is opened again and again.
        cache.obtain(store, first, SCHEMA, FIELDS, ["k"])
        cache.obtain(store, second, SCHEMA, FIELDS, ["k"])
    assert len(checked) == 1, "the second one it has made itself"


def test_memory_holds_the_copies_used_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    files = write_files(store, 3)
    size = CopyCache(tmp_path, UNLIMITED).obtain(store, files[0], SCHEMA, FIELDS, ["k"]).size_bytes
    cache = CopyCache(tmp_path, CacheLimits(None, 2 * size, 3_600_000))
    for file in files:
        cache.obtain(store, file, SCHEMA, FIELDS, ["k"])
    opened: list[Path] = []

    class Noted(LocalCopy):
        def __init__(self, path: Path, *, check: bool = True) -> None:
            opened.append(path)
            super().__init__(path, check=check)

    monkeypatch.setattr(copy_cache, "LocalCopy", Noted)
    assert cache.find(files[1], SCHEMA, ["k"]) is not None
    assert cache.find(files[2], SCHEMA, ["k"]) is not None
    assert opened == []
    assert cache.find(files[0], SCHEMA, ["k"]) is not None
    assert len(opened) == 1


def mappings(folder: Path) -> int:
    """Copies below a folder that this process has mapped."""
    return sum(str(folder) in line for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("most", [2, 100], ids=["protected", "control"])
def test_small_copies_do_not_use_up_the_mappings_of_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(copy_cache, "_MOST_OPEN", most)
    monkeypatch.setattr(copy_cache, "_MOST_NOTED", most)
    store = MemoryStore()
    files = write_files(store, 5, rows=10)
    cache = CopyCache(tmp_path, UNLIMITED)
    for file in files:
        assert cache.reads_direct(file, 1)
        cache.obtain(store, file, SCHEMA, FIELDS, ["k"])
        assert cache.find(file, SCHEMA, ["k"]) is not None
    assert mappings(tmp_path) == min(most, len(files))
    for notes in (cache._trusted, cache._noted_ms, cache._direct_bytes):
        assert len(notes) == min(most, len(files))
    assert all(cache.find(file, SCHEMA, ["k"]) is not None for file in files)


def test_a_full_disk_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    (file,) = write_files(store, 1)

    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copy_cache, "write_copy", no_room)
    with pytest.raises(ResourceExhausted, match=str(tmp_path)):
        CopyCache(tmp_path, UNLIMITED).obtain(store, file, SCHEMA, FIELDS, ["k"])


def test_the_folder_is_the_users_own(tmp_path: Path) -> None:
    folder = find_cache_folder(str(tmp_path / "mine"))
    assert folder.parent == tmp_path / "mine"
    assert folder.stat().st_mode & 0o077 == 0
    assert find_cache_folder(str(tmp_path / "mine")) == folder
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(
        PermissionDenied, match=r"belongs to another user or may be written to by others.*LAKELOG_CACHE"
    ):
        find_cache_folder(str(open_to_all))
    (tmp_path / "file").write_text("")
    with pytest.raises(PermissionDenied, match="LAKELOG_CACHE_DIR"):
        find_cache_folder(str(tmp_path / "file"))
