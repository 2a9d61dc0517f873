"""Marks of a bucket: which sections need one, which files name it, and when what it says holds."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.errors import DataCorrupted, Fenced
from lakelog.options.values import TableOptions
from lakelog.storage.merging import bucket_vectors as deletion_vector_building
from lakelog.storage.merging import deletion_vector_file
from lakelog.storage.merging.bucket_vectors import BuiltVectors, build_deletion_vectors, pick_sections, split_by_rows
from lakelog.storage.merging.deletion_vector_file import (
    CommittedDeletionVectors,
    write_deletion_vectors,
)
from lakelog.storage.merging.deletion_vectors import are_committed, find_deletion_vectors
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.pages import decoding
from tests.unit.storage.data_files import read_bytes
from tests.unit.storage.vectored_runs import DELETE, INSERT, POLICY, SCHEMA, to_lists, write_run

PATH = "data/9/deletion-vectors-0"
SEQUENCE = dataclasses.replace(POLICY, sequence=("seq",))


def read_all(store: MemoryStore, path: str) -> CommittedDeletionVectors:
    return deletion_vector_file.read_deletion_vectors(store, path, {"data/2/f": 1000, "data/3/f": 1000})


def build_vectors(store: MemoryStore, sections: Sequence[Sequence[LiveFile]], path: str = PATH) -> BuiltVectors:
    return build_deletion_vectors(store, SCHEMA, TableOptions({}), path, sections, lambda: None)


def as_vectored(vectors: BuiltVectors) -> list[LiveFile]:
    """The files as their new entries have them, in order."""
    return [
        dataclasses.replace(file, deletion_vector_path=vectors.path_of(section), added_snapshot=99)
        if file in section.vector_files
        else file
        for section in vectors.sections
        for file in section.files
    ]


def names(sections: Sequence[Sequence[LiveFile]]) -> list[list[int]]:
    return [[file.order_snapshot for file in section] for section in sections]


def test_what_a_read_merges_and_need_not_is_picked() -> None:
    store = MemoryStore()
    base, other = write_run(store, 1, [1, 5]), write_run(store, 2, [20, 29])
    over, apart = write_run(store, 3, [4, 9]), write_run(store, 4, [40], [DELETE])
    files = [base, other, over, apart]
    # One alone with deletes costs no more than its kinds.
    assert names(pick_sections(files, POLICY)) == [[1, 3]]
    known = dataclasses.replace(over, deletion_vector_path="")
    assert pick_sections([base, known], POLICY) == []
    above = write_run(store, 5, [5, 21])
    assert names(pick_sections([base, other, known, above], POLICY)) == [[1, 2, 3, 5]]


def test_deletes_count_only_where_sequences_do() -> None:
    store = MemoryStore()
    files = [write_run(store, 1, [1, 5]), write_run(store, 2, [1, 2], [INSERT, DELETE])]
    assert names(pick_sections(files, POLICY)) == [[1, 2]]
    assert pick_sections(files, SEQUENCE) == []
    assert names(pick_sections([files[0], write_run(store, 3, [1, 2])], SEQUENCE)) == [[1, 3]]


def test_a_section_with_deletion_vectors_is_read_without_keys() -> None:
    store = MemoryStore()
    files = [
        write_run(store, 1, [1, 2, 3, 4]),
        write_run(store, 2, [2, 9], [INSERT, INSERT]),
        write_run(store, 3, [3, 9], [DELETE, INSERT]),
    ]
    wanted = to_lists(find_deletion_vectors(store, files, SCHEMA, POLICY))
    vectors = build_vectors(store, pick_sections(files, POLICY))
    (section,) = vectors.sections
    assert ([file.order_snapshot for file in section.vector_files], section.deleted_count) == ([2, 3], 4)
    after = as_vectored(vectors)
    assert [file.deletion_vector_path for file in after] == [None, PATH, PATH]
    store.delete_many([file.path for file in files])
    assert to_lists(find_deletion_vectors(store, after, SCHEMA, POLICY)) == wanted


def test_the_oldest_file_gets_a_deletion_vector_for_its_own_deletes_only() -> None:
    store = MemoryStore()
    files = [write_run(store, 1, [1, 2], [INSERT, DELETE]), write_run(store, 2, [1, 3])]
    vectors = build_vectors(store, [files])
    assert [file.order_snapshot for file in vectors.sections[0].vector_files] == [1, 2]
    assert are_committed(as_vectored(vectors))
    assert to_lists(find_deletion_vectors(store, as_vectored(vectors), SCHEMA, POLICY)) == [[0, 1], None]


def test_where_no_row_is_deleted_nothing_is_written() -> None:
    store = MemoryStore()
    quiet, loud = (
        [write_run(store, 1, [1, 9]), write_run(store, 2, [2, 8])],
        [
            write_run(store, 3, [20, 29]),
            write_run(store, 4, [20, 21]),
        ],
    )
    vectors = build_vectors(store, [quiet])
    assert (vectors.path, vectors.path_of(vectors.sections[0])) == ("", "")
    with pytest.raises(DataCorrupted, match="missing"):
        read_all(store, PATH)
    vectors = build_vectors(store, [quiet, loud])
    assert [vectors.path_of(section) for section in vectors.sections] == ["", PATH]
    assert read_all(store, PATH).sections == [["data/3/f", "data/4/f"]]
    assert to_lists(find_deletion_vectors(store, as_vectored(vectors), SCHEMA, POLICY)) == [None, None, [0], None]


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_deletion_vectors_hold_while_all_that_they_rest_on_is_there(monkeypatch: pytest.MonkeyPatch, gone: int) -> None:
    """An overwrite may take any file away: what it superseded is shown again."""
    store = MemoryStore()
    files = [write_run(store, 1, [1, 2]), write_run(store, 2, [1, 3]), write_run(store, 3, [1, 2, 3])]
    policy = dataclasses.replace(POLICY, keep_first=True)
    options = TableOptions({"merge-engine": "first-row"})
    vectors = build_deletion_vectors(store, SCHEMA, options, PATH, [files], lambda: None)
    vector_files = as_vectored(vectors)
    left = vector_files[:gone] + vector_files[gone + 1 :]
    plain = files[:gone] + files[gone + 1 :]
    wanted = to_lists(find_deletion_vectors(store, plain, SCHEMA, policy))
    assert are_committed(left)
    assert to_lists(find_deletion_vectors(store, left, SCHEMA, policy)) == wanted
    # The control: with what is said of files that are gone.
    monkeypatch.setattr(CommittedDeletionVectors, "hold_for", lambda *_: True)
    found = to_lists(find_deletion_vectors(store, left, SCHEMA, policy))
    assert (found != wanted) is (gone < 2)


def test_files_of_another_section_do_not_matter() -> None:
    deletion_vectors = CommittedDeletionVectors({}, [["a", "b"], ["c", "d"]])
    assert deletion_vectors.hold_for(["a", "b", "x"])
    assert deletion_vectors.hold_for(["x"])
    assert not deletion_vectors.hold_for(["a", "c", "d"])
    assert CommittedDeletionVectors({}).hold_for([])


def test_what_says_nothing_of_its_files_is_damaged() -> None:
    store = MemoryStore()
    write_deletion_vectors(store, PATH, {"a": np.array([1])}, [["a", "b"]])
    assert read_all(store, PATH).sections == [["a", "b"]]
    for number, text in enumerate(("{}", '["a"]', "[[")):
        other = f"{PATH}-{number}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("json.dumps", lambda *_, text=text: text)
            write_deletion_vectors(store, other, {"a": np.array([1])}, [["a"]])
        with pytest.raises(DataCorrupted, match="does not say which files it is about"):
            read_all(store, other)


def test_memory_bounds_what_is_found_together(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    sections = [
        [write_run(store, 10 * number, list(range(10))), write_run(store, 10 * number + 1, list(range(number)))]
        for number in (1, 2, 3, 4)
    ]
    assert [names(each) for each in split_by_rows(sections, 3)] == [[[10, 11], [20, 21], [30, 31]], [[40, 41]]]
    monkeypatch.setattr(deletion_vector_building, "MAX_FOUND_TOGETHER", 5)
    assert [len(each) for each in split_by_rows(sections, 9)] == [2, 1, 1]
    monkeypatch.setattr(deletion_vector_building, "MAX_FOUND_TOGETHER", 3)
    assert pick_sections(sections[3], POLICY) == []
    assert len(pick_sections(sections[2], POLICY)) == 1


def test_who_lost_its_job_ends_between_two_sections() -> None:
    store = MemoryStore()
    sections = [[write_run(store, number, [1, 2]), write_run(store, number + 1, [1])] for number in (1, 3)]
    seen: list[int] = []

    def check() -> None:
        seen.append(1)
        if len(seen) == 2:
            raise Fenced("another does it")

    with pytest.raises(Fenced):
        build_deletion_vectors(store, SCHEMA, TableOptions({}), PATH, sections, check)
    with pytest.raises(DataCorrupted, match="missing"):
        read_all(store, PATH)


@pytest.mark.parametrize("is_batched", [True, False], ids=["protected", "control"])
def test_small_files_of_many_positions_take_little_memory(monkeypatch: pytest.MonkeyPatch, is_batched: bool) -> None:
    """Data files that are gone count nothing, and others have as many rows as they have."""
    if not is_batched:
        monkeypatch.setattr(deletion_vector_file, "_BATCH_ROWS", 1 << 40)
        monkeypatch.setattr(deletion_vector_file, "DECODED_BYTES", 1 << 40)
    store, many = MemoryStore(), 4 << 20
    write_deletion_vectors(store, PATH, {"data/3/f": np.array([1, 999]), "data/gone": np.arange(many)})
    write_deletion_vectors(store, f"{PATH}1", {"data/3/f": np.arange(many)})
    assert len(read_bytes(store, PATH)) < many // 50
    tracemalloc.start()
    try:
        found = deletion_vector_file.read_deletion_vectors(store, PATH, {"data/3/f": 1000})
        with pytest.raises(DataCorrupted, match=r"positions that it has for data file data/3/f are none of its 1000"):
            deletion_vector_file.read_deletion_vectors(store, f"{PATH}1", {"data/3/f": 1000})
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {name: indices.tolist() for name, indices in found.by_path.items()} == {"data/3/f": [1, 999]}
    assert (peak_bytes < many * 8) is is_batched


def test_positions_of_a_data_file_stand_together() -> None:
    """A file that goes back and forth between two data files would take a step in Python for each position."""
    store = MemoryStore()
    write_deletion_vectors(store, PATH, {"data/2/f": np.arange(2)})
    with pq.ParquetFile(pa.BufferReader(read_bytes(store, PATH)), read_dictionary=["file"]) as parquet:
        table, said = parquet.read(), parquet.metadata.metadata
    files = pa.array(["data/1/f", "data/2/f"] * 1000).dictionary_encode()
    there = pa.table([files, pa.array(range(2000), pa.int32())], schema=table.schema.with_metadata(said))
    writer = store.create(f"{PATH}1")
    pq.write_table(there.replace_schema_metadata({**said, b"lakelog.path": f"{PATH}1".encode()}), writer.sink)
    writer.commit()
    with pytest.raises(DataCorrupted, match="the positions of a data file do not stand together"):
        read_all(store, f"{PATH}1")


@pytest.mark.parametrize("is_checked", [True, False], ids=["protected", "control"])
def test_positions_rise_from_one_batch_to_the_next(monkeypatch: pytest.MonkeyPatch, is_checked: bool) -> None:
    store = MemoryStore()
    write_deletion_vectors(store, PATH, {"data/2/f": np.arange(10), "data/3/f": np.array([*range(10), *range(10)])})
    monkeypatch.setattr(deletion_vector_file, "_BATCH_ROWS", 10)
    if not is_checked:
        monkeypatch.setattr(deletion_vector_file, "_add", lambda parts, name, indices, row_count: parts.append(indices))
        assert len(read_all(store, PATH).by_path["data/3/f"]) == 20
        return
    with pytest.raises(DataCorrupted, match="data/3/f are none of its 1000 rows, or do not rise"):
        read_all(store, PATH)


def test_a_file_of_positions_that_would_take_too_much_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    write_deletion_vectors(store, PATH, {"data/3/f": np.arange(1000)})
    assert len(read_all(store, PATH).by_path["data/3/f"]) == 1000
    with monkeypatch.context() as patched:
        patched.setattr(deletion_vector_file, "_MOST_POSITIONS", 999)
        with pytest.raises(DataCorrupted, match=f"{PATH} is damaged: it claims 1000 positions, and at most 999"):
            read_all(store, PATH)
    monkeypatch.setattr(decoding, "LARGEST_DECODED_BYTES", 20)
    with pytest.raises(DataCorrupted, match=f"{PATH} cannot be read: the pages of its columns"):
        read_all(store, PATH)


def test_a_file_of_positions_with_a_huge_footer_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A footer of 66 MB with a million columns would take 1.7 GB; without the check, here, the names differ first."""
    store = MemoryStore()
    columns = {f"column {number}": [1] for number in range(500)}
    writer = store.create(PATH)
    pq.write_table(pa.table(columns), writer.sink)
    writer.commit()
    with pytest.raises(DataCorrupted, match=f"{PATH} is damaged: it holds no positions of rows"):
        read_all(store, PATH)
    monkeypatch.setattr(deletion_vector_file, "_MOST_FOOTER_BYTES", 10_000)
    with pytest.raises(DataCorrupted, match=r"its footer claims \d+ bytes, and at most 10000 are read"):
        read_all(store, PATH)
    write_deletion_vectors(store, f"{PATH}1", {"data/3/f": np.arange(1000)})
    assert len(read_all(store, f"{PATH}1").by_path["data/3/f"]) == 1000
