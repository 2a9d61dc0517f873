"""Marks of a bucket: which sections need one, which files name it, and when what it says holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from lakelog.errors import DataCorrupted, Fenced
from lakelog.options.values import TableOptions
from lakelog.storage import bucket_marks
from lakelog.storage.bucket_marks import WrittenMarks, pick_sections, split_by_rows, write_marks
from lakelog.storage.live_file import LiveFile
from lakelog.storage.memory import MemoryStore
from lakelog.storage.superseded import are_committed, find_superseded_positions
from lakelog.storage.superseded_file import CommittedPositions, read_superseded, write_superseded

from .test_superseded import DELETE, INSERT, POLICY, SCHEMA, to_lists, write_run

PATH = "data/9/superseded-0"
SEQUENCE = dataclasses.replace(POLICY, sequence=("seq",))


def mark(store: MemoryStore, sections: Sequence[Sequence[LiveFile]], path: str = PATH) -> WrittenMarks:
    return write_marks(store, SCHEMA, TableOptions({}), path, sections, lambda: None)


def as_marked(marks: WrittenMarks) -> list[LiveFile]:
    """The files as their new entries have them, in order."""
    return [
        dataclasses.replace(file, superseded_path=marks.path_of(section), added_snapshot=99)
        if file in section.marked
        else file
        for section in marks.sections
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
    known = dataclasses.replace(over, superseded_path="")
    assert pick_sections([base, known], POLICY) == []
    above = write_run(store, 5, [5, 21])
    assert names(pick_sections([base, other, known, above], POLICY)) == [[1, 2, 3, 5]]


def test_deletes_count_only_where_sequences_do() -> None:
    store = MemoryStore()
    files = [write_run(store, 1, [1, 5]), write_run(store, 2, [1, 2], [INSERT, DELETE])]
    assert names(pick_sections(files, POLICY)) == [[1, 2]]
    assert pick_sections(files, SEQUENCE) == []
    assert names(pick_sections([files[0], write_run(store, 3, [1, 2])], SEQUENCE)) == [[1, 3]]


def test_a_marked_section_is_read_without_keys() -> None:
    store = MemoryStore()
    files = [
        write_run(store, 1, [1, 2, 3, 4]),
        write_run(store, 2, [2, 9], [INSERT, INSERT]),
        write_run(store, 3, [3, 9], [DELETE, INSERT]),
    ]
    wanted = to_lists(find_superseded_positions(store, files, SCHEMA, POLICY))
    marks = mark(store, pick_sections(files, POLICY))
    (section,) = marks.sections
    assert ([file.order_snapshot for file in section.marked], section.superseded_count) == ([2, 3], 4)
    after = as_marked(marks)
    assert [file.superseded_path for file in after] == [None, PATH, PATH]
    store.delete_many([file.path for file in files])
    assert to_lists(find_superseded_positions(store, after, SCHEMA, POLICY)) == wanted


def test_the_oldest_file_is_marked_for_its_own_deletes_only() -> None:
    store = MemoryStore()
    files = [write_run(store, 1, [1, 2], [INSERT, DELETE]), write_run(store, 2, [1, 3])]
    marks = mark(store, [files])
    assert [file.order_snapshot for file in marks.sections[0].marked] == [1, 2]
    assert are_committed(as_marked(marks))
    assert to_lists(find_superseded_positions(store, as_marked(marks), SCHEMA, POLICY)) == [[0, 1], None]


def test_where_nothing_is_superseded_nothing_is_written() -> None:
    store = MemoryStore()
    quiet, loud = (
        [write_run(store, 1, [1, 9]), write_run(store, 2, [2, 8])],
        [
            write_run(store, 3, [20, 29]),
            write_run(store, 4, [20, 21]),
        ],
    )
    marks = mark(store, [quiet])
    assert (marks.path, marks.path_of(marks.sections[0])) == ("", "")
    with pytest.raises(DataCorrupted, match="missing"):
        read_superseded(store, PATH)
    marks = mark(store, [quiet, loud])
    assert [marks.path_of(section) for section in marks.sections] == ["", PATH]
    assert read_superseded(store, PATH).sections == [["data/3/f", "data/4/f"]]
    assert to_lists(find_superseded_positions(store, as_marked(marks), SCHEMA, POLICY)) == [None, None, [0], None]


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_positions_hold_while_all_that_they_rest_on_is_there(monkeypatch: pytest.MonkeyPatch, gone: int) -> None:
    """An overwrite may take any file away: what it superseded is shown again."""
    store = MemoryStore()
    files = [write_run(store, 1, [1, 2]), write_run(store, 2, [1, 3]), write_run(store, 3, [1, 2, 3])]
    policy = dataclasses.replace(POLICY, keep_first=True)
    options = TableOptions({"merge-engine": "first-row"})
    marks = write_marks(store, SCHEMA, options, PATH, [files], lambda: None)
    marked = as_marked(marks)
    left = marked[:gone] + marked[gone + 1 :]
    plain = files[:gone] + files[gone + 1 :]
    wanted = to_lists(find_superseded_positions(store, plain, SCHEMA, policy))
    assert are_committed(left)
    assert to_lists(find_superseded_positions(store, left, SCHEMA, policy)) == wanted
    # The control: with what is said of files that are gone.
    monkeypatch.setattr(CommittedPositions, "hold_for", lambda *_: True)
    found = to_lists(find_superseded_positions(store, left, SCHEMA, policy))
    assert (found != wanted) is (gone < 2)


def test_files_of_another_section_do_not_matter() -> None:
    positions = CommittedPositions({}, [["a", "b"], ["c", "d"]])
    assert positions.hold_for(["a", "b", "x"])
    assert positions.hold_for(["x"])
    assert not positions.hold_for(["a", "c", "d"])
    assert CommittedPositions({}).hold_for([])


def test_what_says_nothing_of_its_files_is_damaged() -> None:
    store = MemoryStore()
    write_superseded(store, PATH, {"a": np.array([1])}, [["a", "b"]])
    assert read_superseded(store, PATH).sections == [["a", "b"]]
    for number, text in enumerate(("{}", '["a"]', "[[")):
        other = f"{PATH}-{number}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("json.dumps", lambda *_, text=text: text)
            write_superseded(store, other, {"a": np.array([1])}, [["a"]])
        with pytest.raises(DataCorrupted, match="does not say which files it is about"):
            read_superseded(store, other)


def test_memory_bounds_what_is_found_together(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    sections = [
        [write_run(store, 10 * number, list(range(10))), write_run(store, 10 * number + 1, list(range(number)))]
        for number in (1, 2, 3, 4)
    ]
    assert [names(each) for each in split_by_rows(sections, 3)] == [[[10, 11], [20, 21], [30, 31]], [[40, 41]]]
    monkeypatch.setattr(bucket_marks, "MAX_FOUND_TOGETHER", 5)
    assert [len(each) for each in split_by_rows(sections, 9)] == [2, 1, 1]
    monkeypatch.setattr(bucket_marks, "MAX_FOUND_TOGETHER", 3)
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
        write_marks(store, SCHEMA, TableOptions({}), PATH, sections, check)
    with pytest.raises(DataCorrupted, match="missing"):
        read_superseded(store, PATH)
