from __future__ import annotations

import contextlib
import dataclasses
import pickle
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import DataCorrupted
from lakelog.options.values import TableOptions
from lakelog.storage.merging.deletion_vector_file import write_deletion_vectors
from lakelog.storage.merging.deletion_vectors import DeletionVectorCache, find_deletion_vectors
from lakelog.storage.merging.merge_policy import MergePolicy, to_merge_policy
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.parquet.live_file import LiveFile
from tests.unit.storage.vectored_runs import DELETE, INSERT, POLICY, SCHEMA, to_lists, write_run

from .data_files import read_bytes, replace_bytes, write_data_file


def test_policy_comes_from_key_and_options() -> None:
    options = TableOptions({"sequence.field": "seq", "sequence.field.sort-order": "desc"})
    assert to_merge_policy(SCHEMA, options) == MergePolicy(("id", "sub"), ("seq",), True, 86_400_000)


def test_files_that_overlap_nothing_are_not_even_opened() -> None:
    store = MemoryStore()
    files = [write_run(store, 1, list(range(50))), write_run(store, 2, list(range(50, 90)))]
    store.delete_many([file.path for file in files])
    assert find_deletion_vectors(store, files, SCHEMA, POLICY) == (None, None)


def test_the_later_file_wins_and_deletes_are_left_out() -> None:
    store = MemoryStore()
    files = [
        write_run(store, 1, [1, 2, 3, 4]),
        write_run(store, 2, [2, 9], [INSERT, INSERT]),
        write_run(store, 3, [3, 9], [DELETE, INSERT]),
        write_run(store, 4, [20, 21], [DELETE, INSERT]),
    ]
    assert to_lists(find_deletion_vectors(store, files, SCHEMA, POLICY)) == [[1, 2], [1], [0], [0]]


def test_merging_by_steps_finds_what_merging_at_once_finds() -> None:
    random = np.random.default_rng(5)
    store = MemoryStore()
    files = []
    for order in range(1, 9):
        ids = np.unique(random.integers(0, 400, int(random.integers(1, 200)))).tolist()
        kinds = random.choice([INSERT, DELETE], len(ids), p=[0.8, 0.2]).tolist() if order % 2 else None
        files.append(write_run(store, order, ids, kinds))
    for policy in (POLICY, dataclasses.replace(POLICY, sequence=("seq",), sequence_descending=True)):
        at_once = find_deletion_vectors(store, files, SCHEMA, policy)
        by_steps = find_deletion_vectors(store, files, SCHEMA, policy, memory_bytes=1)
        assert to_lists(by_steps) == to_lists(at_once)
        assert sum(len(indices) for indices in at_once if indices is not None) > 100


def with_deletion_vectors(store: MemoryStore, file: LiveFile, deletion_vectors: dict[str, list[int]]) -> LiveFile:
    path = f"data/{file.order_snapshot}/deletion-vectors-0"
    write_deletion_vectors(store, path, {name: np.array(places, np.int64) for name, places in deletion_vectors.items()})
    return dataclasses.replace(file, deletion_vector_path=path)


def test_committed_deletion_vectors_are_used_as_they_are() -> None:
    store = MemoryStore()
    first, second, third = (
        write_run(store, 1, [1, 2, 3, 4]),
        write_run(store, 2, [2, 9], [INSERT, INSERT]),
        write_run(store, 3, [3, 9], [DELETE, INSERT]),
    )
    wanted = to_lists(find_deletion_vectors(store, [first, second, third], SCHEMA, POLICY))
    second = with_deletion_vectors(store, second, {first.path: [1]})
    third = with_deletion_vectors(store, third, {first.path: [2], second.path: [1], third.path: [0], "data/gone": [7]})
    # Nobody reads a key for it.
    store.delete_many([first.path, second.path, third.path])
    assert to_lists(find_deletion_vectors(store, [first, second, third], SCHEMA, POLICY)) == wanted
    # A commit that superseded nothing says so without a file.
    apart = dataclasses.replace(second, deletion_vector_path="")
    assert to_lists(find_deletion_vectors(store, [first, apart], SCHEMA, POLICY)) == [None, None]


def test_committed_deletion_vectors_are_held_for_one_commit_at_a_time() -> None:
    """Most of what many commits have named may be of files that were compacted since."""
    store = MemoryStore()
    rows = 100_000
    files = [dataclasses.replace(write_run(store, 1, [1, 2]), row_count=rows)]
    for order in range(2, 32):
        named = {"data/gone": list(range(rows)), files[0].path: [order, rows - order]}
        files.append(with_deletion_vectors(store, write_run(store, order, [1, 2]), named))
    tracemalloc.start()
    try:
        first, *later = find_deletion_vectors(store, files, SCHEMA, POLICY)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert first is not None
    assert first.tolist() == [*range(2, 32), *range(rows - 31, rows - 1)]
    assert first.dtype == np.int64
    assert later == [None] * 30
    assert peak_bytes < 8 * (rows * 8), "each commit has named 100,000 rows, and there are 30"


def test_what_several_commits_have_named_is_checked_commit_by_commit() -> None:
    store = MemoryStore()
    first = write_run(store, 1, [1, 2, 3, 4])
    second = with_deletion_vectors(store, write_run(store, 2, [2, 9]), {first.path: [1, 3]})
    third = with_deletion_vectors(store, write_run(store, 3, [2, 4]), {first.path: [3, 2], second.path: [0]})
    with pytest.raises(DataCorrupted, match="data/1/f are none of its 4 rows"):
        find_deletion_vectors(store, [first, second, third], SCHEMA, POLICY)


def test_deletion_vectors_are_found_where_one_commit_did_not_look() -> None:
    store = MemoryStore()
    first, second = write_run(store, 1, [1, 2, 3, 4]), write_run(store, 2, [2, 9])
    third = with_deletion_vectors(store, write_run(store, 3, [4]), {first.path: [3]})
    assert to_lists(find_deletion_vectors(store, [first, second, third], SCHEMA, POLICY)) == [[1, 3], None, None]
    # The oldest file's own deletes must be known, too.
    deleting = write_run(store, 4, [1, 5], [DELETE, INSERT])
    fifth = with_deletion_vectors(store, write_run(store, 5, [5]), {deleting.path: [1]})
    assert to_lists(find_deletion_vectors(store, [deleting, fifth], SCHEMA, POLICY)) == [[0, 1], None]


def test_a_compaction_below_a_file_that_was_there_is_merged_again() -> None:
    """The positions that the file names are of the files that were compacted."""
    store = MemoryStore()
    third = with_deletion_vectors(store, write_run(store, 3, [2, 4]), {"data/2/f": [0]})
    third = dataclasses.replace(third, added_snapshot=3)
    compacted = dataclasses.replace(write_run(store, 2, [1, 2, 3]), added_snapshot=4)
    assert to_lists(find_deletion_vectors(store, [compacted, third], SCHEMA, POLICY)) == [[1], None]


def test_what_was_written_is_merged_within_its_commit_whatever_is_committed() -> None:
    store = MemoryStore()
    first = write_run(store, 1, [1, 2])
    second = with_deletion_vectors(store, write_run(store, 2, [2, 3]), {first.path: [0, 1]})
    policy = dataclasses.replace(POLICY, keeps_deletes=True)
    assert to_lists(find_deletion_vectors(store, [first, second], SCHEMA, policy)) == [[1], None]


@pytest.mark.parametrize("places", [[4], [-1], [2, 1]])
def test_committed_deletion_vectors_that_cannot_be(places: list[int]) -> None:
    store = MemoryStore()
    first = write_run(store, 1, [1, 2, 3, 4])
    second = with_deletion_vectors(store, write_run(store, 2, [2, 9]), {first.path: places})
    with pytest.raises(DataCorrupted, match="data/1/f are none of its 4 rows"):
        find_deletion_vectors(store, [first, second], SCHEMA, POLICY)


def test_a_deletion_vector_that_is_missing_damaged_or_another_one() -> None:
    store = MemoryStore()
    first = write_run(store, 1, [1, 2, 3, 4])
    second = with_deletion_vectors(store, write_run(store, 2, [2, 9]), {first.path: [1]})
    assert second.deletion_vector_path is not None
    content = read_bytes(store, second.deletion_vector_path)
    swapped = dataclasses.replace(second, deletion_vector_path="data/2/deletion-vectors-1")
    moved = replace_bytes(store, "data/2/deletion-vectors-1", content)
    with pytest.raises(DataCorrupted, match=r"deletion-vectors-1 is damaged: it is the file data/2/deletion-vectors-0"):
        find_deletion_vectors(moved, [first, swapped], SCHEMA, POLICY)
    for place in range(4, len(content) - 8, 9):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        other = replace_bytes(store, second.deletion_vector_path, bytes(damaged))
        with contextlib.suppress(DataCorrupted):
            # What is not used, such as who wrote it, may be anything.
            assert to_lists(find_deletion_vectors(other, [first, second], SCHEMA, POLICY)) == [[1], None]
    store.delete_many([second.deletion_vector_path])
    with pytest.raises(DataCorrupted, match="deletion-vectors-0 is missing"):
        find_deletion_vectors(store, [first, second], SCHEMA, POLICY)


def test_all_rows_of_one_key_prefix_are_merged_by_steps_too() -> None:
    store = MemoryStore()
    files = []
    for order in (1, 2, 3):
        subs = [f"{number:04d}" for number in range(0, 60, order)]
        columns = {"part": ["p"] * len(subs), "id": [7] * len(subs), "sub": subs, "seq": [0] * len(subs), "v": subs}
        files.append(
            write_data_file(
                store, f"d/{order}", SCHEMA, pa.table(columns, schema=SCHEMA.arrow), row_group_rows=5, order=order
            )
        )
    found = find_deletion_vectors(store, files, SCHEMA, POLICY, memory_bytes=1)
    assert to_lists(found) == to_lists(find_deletion_vectors(store, files, SCHEMA, POLICY))
    assert found[0] is not None
    assert len(found[0]) == len({*range(0, 60, 2), *range(0, 60, 3)})
    assert found[2] is None


def test_merging_by_steps_refuses_a_file_that_is_not_sorted() -> None:
    store = MemoryStore()
    columns = {"part": ["p"] * 3, "id": [3, 1, 2], "sub": ["s"] * 3, "seq": [0] * 3, "v": [""] * 3}
    unsorted = write_data_file(store, "d/u", SCHEMA, pa.table(columns, schema=SCHEMA.arrow), order=2)
    files = [write_run(store, 1, [1, 2, 3]), unsorted]
    with pytest.raises(DataCorrupted, match=r"d/u is damaged: its rows are not sorted by id, sub"):
        find_deletion_vectors(store, files, SCHEMA, POLICY, memory_bytes=1)


def test_the_cache_answers_without_reading_and_stays_in_its_bounds() -> None:
    store = MemoryStore()
    first = [write_run(store, 1, list(range(100))), write_run(store, 2, list(range(100)))]
    second = [first[0], write_run(store, 3, list(range(50)))]
    cache = DeletionVectorCache(1500)
    answer = find_deletion_vectors(store, first, SCHEMA, POLICY, cache=cache)
    store.delete(first[1].path)
    assert find_deletion_vectors(store, first, SCHEMA, POLICY, cache=cache) is answer
    find_deletion_vectors(store, second, SCHEMA, POLICY, cache=cache)
    with pytest.raises(DataCorrupted, match="missing"):
        find_deletion_vectors(store, first, SCHEMA, POLICY, cache=cache)


def test_another_policy_is_another_answer() -> None:
    store = MemoryStore()
    files = [write_run(store, 2, [1, 2]), write_run(store, 1, [1, 2])]
    cache = DeletionVectorCache(1 << 20)
    by_sequence = dataclasses.replace(POLICY, sequence=("seq",))
    assert to_lists(find_deletion_vectors(store, files, SCHEMA, POLICY, cache=cache)) == [[0, 1], None]
    assert to_lists(find_deletion_vectors(store, files, SCHEMA, by_sequence, cache=cache)) == [None, [0, 1]]


def test_what_executors_get_pickles() -> None:
    store = MemoryStore()
    file = write_run(store, 1, [1])
    assert pickle.loads(pickle.dumps((file, SCHEMA, POLICY))) == (file, SCHEMA, POLICY)
