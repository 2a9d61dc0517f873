"""What merging the files of one commit makes of them: rows, kinds, order, files; and what a failure leaves."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import DataCorrupted, Unavailable
from lakelog.format.tables.files import DataFile
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.options.values import TableOptions
from lakelog.storage.lookup.bucket_changelog import to_added
from lakelog.storage.merging.aligned_runs import RunPart, read_aligned, read_run
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.own_columns import KIND_FIELD
from lakelog.storage.rewrite import commit_merge
from lakelog.storage.rewrite.commit_merge import (
    CommitMerger,
    MergeFiles,
    MergeTask,
    merge_commit_files,
    merge_in_threads,
)
from lakelog.storage.write.input_copies import InputCopies
from lakelog.storage.write.table_writer import TableWriter
from lakelog.testing.faulty_store import FaultyStore

FIELDS = [pa.field("id", pa.int64(), nullable=False), pa.field("seq", pa.int64()), pa.field("v", pa.string())]
KEYED = TableSchema(0, assign_field_ids(pa.schema(FIELDS)), primary_key=("id",))
PLAIN = TableSchema(0, assign_field_ids(pa.schema(FIELDS)))
ATTEMPT = "c" * 32
ON = {"precommit-compact": "true", "target-file-size": "1 mb"}
INSERT, UPDATE_AFTER, DELETE = 0, 2, 3

Row = tuple[Any, ...]
"""Key, sequence, value, and a kind other than +I."""


def write(
    store: ObjectStore, rows: Sequence[Row], *, schema: TableSchema = KEYED, name: str, options: dict[str, str]
) -> tuple[list[DataFile], list[DataFile]]:
    """One flush of a writer: its data files and its changelog files."""
    writer = TableWriter(
        store,
        schema,
        TableOptions(options),
        ATTEMPT,
        name_prefix=name,
        copies=InputCopies.ALL if schema.primary_key else InputCopies.NONE,
    )
    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(FIELDS)]
    kinds = np.array([row[3] if len(row) > 3 else INSERT for row in rows], np.int8)
    writer.write(pa.table(columns, schema=schema.arrow), kinds if kinds.any() else None)
    files = writer.finish()
    return [*files], [*writer.copies]


def read(store: ObjectStore, files: Sequence[DataFile], schema: TableSchema = KEYED) -> list[Row]:
    """The rows as they stand, with the kinds of those that are not +I."""
    found: list[Row] = []
    for file in to_added(files, 0, 0):
        table = read_run(DataFiles(store), RunPart(file, [*schema.arrow, KIND_FIELD]))
        for row in table.to_pylist():
            kind = row.pop(ROW_KIND_COLUMN)
            found.append((*row.values(), kind) if kind else tuple(row.values()))
    return found


def merge(
    store: ObjectStore, flushes: Sequence[Sequence[Row]], options: dict[str, str], schema: TableSchema = KEYED
) -> tuple[list[Row], list[Row]]:
    """Rows of data files and of changelog files behind the merge of some flushes."""
    given = {**ON, **options}
    files, inputs = [], []
    for number, rows in enumerate(flushes):
        more, emitted = write(store, rows, schema=schema, name=f"{number}-", options=given)
        files += more
        inputs += emitted
    assert len(files) == len(flushes)
    made, emitted_made = merge_commit_files(CommitMerger(schema, TableOptions(given), ATTEMPT), store, files, inputs)
    assert len(made) == 1
    assert len(emitted_made) == (1 if schema.primary_key else 0)
    assert {each.path for each in store.list_objects()} == {file.path for file in (*made, *emitted_made)}
    assert sum(file.row_count for file in made) == len(read(store, made, schema))
    return read(store, made, schema), read(store, emitted_made, schema)


FLUSHES: list[list[Row]] = [
    [(1, 5, "a"), (2, 5, "b"), (4, 5, "d")],
    [(4, 4, "e", UPDATE_AFTER), (3, 1, "c", DELETE), (2, 6, "x", UPDATE_AFTER)],
    [(2, 5, "y", DELETE), (1, 5, "z")],
]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, [(1, 5, "z"), (2, 5, "y", DELETE), (3, 1, "c", DELETE), (4, 4, "e", UPDATE_AFTER)]),
        # The higher sequence wins; of equal ones what came later.
        ({"sequence.field": "seq"}, [(1, 5, "z"), (2, 6, "x", UPDATE_AFTER), (3, 1, "c", DELETE), (4, 5, "d")]),
        (
            {"sequence.field": "seq", "sequence.field.sort-order": "desc"},
            [(1, 5, "z"), (2, 5, "y", DELETE), (3, 1, "c", DELETE), (4, 4, "e", UPDATE_AFTER)],
        ),
    ],
)
def test_runs_become_what_one_larger_buffer_would_have_made(options: dict[str, str], wanted: list[Row]) -> None:
    rows, emitted = merge(MemoryStore(), FLUSHES, options)
    assert rows == wanted
    whole, one_buffer = MemoryStore(), [row for flush in FLUSHES for row in flush]
    files, inputs = write(whole, one_buffer, name="whole", options={**ON, **options})
    assert rows == read(whole, files)
    # By key, then arrival, and nothing left out.
    assert emitted == read(whole, inputs) == sorted(one_buffer, key=lambda row: row[0])


INPUT = {"changelog-producer": "input", "target-file-size": "1 mb"}


@pytest.mark.parametrize("more", [{}, {"precommit-compact": "true"}])
def test_a_changelog_of_several_tasks_reads_by_key_then_arrival(more: dict[str, str]) -> None:
    store, options = MemoryStore(), TableOptions(INPUT | more)
    # Tasks with other keys and with the same ones, what came last lowest; and one that stands apart.
    flushes: list[list[Row]] = [[(90, 0, "far")], *FLUSHES, [(1, 1, "last", DELETE), (0, 0, "low")]]
    files, inputs = [], []
    for number, rows in enumerate(flushes):
        written, copies = write(store, rows, name=f"{number}-", options=INPUT)
        files += written
        inputs += copies
    made, emitted = merge_commit_files(CommitMerger(KEYED, options, ATTEMPT), store, files, inputs)
    assert read(store, emitted) == sorted((row for rows in flushes for row in rows), key=lambda row: row[0])
    assert {each.path for each in store.list_objects()} == {file.path for file in (*made, *emitted)}
    assert len(emitted) == (1 if more else 2), "what shares no keys is not written again unless it is small"
    assert [*made] == files or more


@pytest.mark.parametrize("seed", range(6))
def test_a_changelog_reads_so_where_a_key_goes_on_in_the_next_row_group(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, store = Random(seed), MemoryStore()
    # Buffers and files so small that a key is cut between row groups and between files.
    options = {"changelog-producer": "input", "write-buffer-size": "1 kb", "target-file-size": "1 kb"}
    monkeypatch.setattr(commit_merge, "_MEMORY_BYTES", 1 << random.randrange(24))
    flushes: list[list[Row]] = [
        [(random.randrange(4), turn, f"{flush}.{turn:050d}") for turn in range(random.randrange(1, 60))]
        for flush in range(4)
    ]
    inputs = [file for n, rows in enumerate(flushes) for file in write(store, rows, name=f"{n}-", options=options)[1]]
    assert any(rows.row_count > 12 for rows in inputs), "some have several row groups"
    _, emitted = merge_commit_files(CommitMerger(KEYED, TableOptions(options), ATTEMPT), store, (), inputs)
    assert read(store, emitted) == sorted((row for rows in flushes for row in rows), key=lambda row: row[0])


def test_a_changelog_in_order_is_not_written_again() -> None:
    store = MemoryStore()
    flushes: list[list[Row]] = [[(7, 0, "c")], [(1, 0, "a"), (2, 0, "b")], [(2, 0, "c"), (5, 0, "d")]]
    inputs = [file for n, rows in enumerate(flushes) for file in write(store, rows, name=f"{n}-", options=INPUT)[1]]
    _, emitted = merge_commit_files(CommitMerger(KEYED, TableOptions(INPUT), ATTEMPT), FaultyStore(store), (), inputs)
    assert [*emitted] == [inputs[1], inputs[2], inputs[0]]


def test_the_first_row_stays_where_the_table_says_so() -> None:
    rows, _ = merge(MemoryStore(), [[(1, 0, "a")], [(1, 0, "b"), (2, 0, "c")]], {"merge-engine": "first-row"})
    assert rows == [(1, 0, "a"), (2, 0, "c")]


def test_kinds_are_kept_only_where_there_are_any() -> None:
    store = MemoryStore()
    merger = CommitMerger(KEYED, TableOptions(ON), ATTEMPT)
    for number, (last, has_kinds) in enumerate([((2, 0, "b"), False), ((2, 0, "b", UPDATE_AFTER), True)]):
        first, _ = write(store, [(1, 0, "a")], name=f"{number}a", options=ON)
        second, _ = write(store, [last], name=f"{number}b", options=ON)
        (made,) = merger.merge(store, MergeTask(f"m{number}", (*first, *second)))
        with DataFiles(store).open(to_added([made], 0, 0)[0]) as reader:
            assert (reader.map_columns([KIND_FIELD]).sources[0] is not None) is has_kinds


def test_rows_of_append_tables_stay_in_their_order() -> None:
    flushes: list[list[Row]] = [[(3, 0, "a"), (1, 0, "b")], [(2, 0, "c")], [(1, 0, "d"), (0, 0, "e")]]
    for options in ({"bucket": "1", "bucket-key": "seq"}, {}):
        rows, _ = merge(MemoryStore(), flushes, options, PLAIN)
        assert rows == [row for flush in flushes for row in flush]


def many_runs(store: ObjectStore, count: int) -> list[DataFile]:
    files = []
    for number in range(count):
        rows: list[Row] = [(key, 0, f"{number}.{key}") for key in range(number % 7, 60, 1 + number % 5)]
        files += write(store, rows, name=f"{number:03d}-", options=ON)[0]
    return files


def test_very_many_runs_are_merged_in_rounds_that_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    files = many_runs(store, 40)
    merger = CommitMerger(KEYED, TableOptions(ON), ATTEMPT)
    at_once = merger.merge(store, MergeTask("whole", tuple(files)))
    monkeypatch.setattr(commit_merge, "_MAX_DEPTH", 3)
    monkeypatch.setattr(commit_merge, "_MEMORY_BYTES", 4)
    before = {each.path for each in store.list_objects()}
    depths: list[int] = []

    def read_counted(data_files: DataFiles, parts: Sequence[RunPart], *more: Any, **further: Any) -> Any:
        depths.append(len(parts))
        return read_aligned(data_files, parts, *more, **further)

    monkeypatch.setattr(commit_merge, "read_aligned", read_counted)
    in_rounds = merger.merge(store, MergeTask("rounds", tuple(files)))
    assert max(depths) <= 3, "rounds were made"
    assert read(store, in_rounds) == read(store, at_once)
    assert {each.path for each in store.list_objects()} == before | {file.path for file in in_rounds}


@pytest.mark.parametrize("merge_files", [merge_in_threads, CommitMerger.merge_all])
@pytest.mark.parametrize(("operation", "number"), [("create", 2), ("commit", 1), ("commit", 2), ("open_input", 5)])
def test_a_failure_takes_back_what_is_new_and_keeps_what_was_there(
    merge_files: MergeFiles, operation: str, number: int
) -> None:
    store = FaultyStore(MemoryStore())
    options = {**ON, "bucket": "2"}
    files = [
        file
        for turn in range(3)
        for file in write(store, [(key, 0, "v") for key in range(50)], name=f"{turn}", options=options)[0]
    ]
    before = {each.path for each in store.list_objects()}
    merger = CommitMerger(KEYED, TableOptions(options), ATTEMPT)
    store.fail_at(operation, number)  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match="told to fail"):
        merge_commit_files(merger, store, files, (), merge=merge_files)
    assert store.failures
    assert {each.path for each in store.list_objects()} == before
    store.heal()
    made, _ = merge_commit_files(merger, store, files, (), name_prefix="again-", merge=merge_files)
    assert len(made) == 2
    assert {each.path for each in store.list_objects() if each.path not in before} == {file.path for file in made}


def test_a_damaged_file_is_named() -> None:
    store = MemoryStore()
    files = many_runs(store, 3)
    store.delete(files[1].path)
    with pytest.raises(DataCorrupted, match=files[1].path):
        merge_commit_files(CommitMerger(KEYED, TableOptions(ON), ATTEMPT), store, files, ())


def test_nothing_is_done_unasked_or_twice() -> None:
    store = MemoryStore()
    files = many_runs(store, 3)
    off = CommitMerger(KEYED, TableOptions({}), ATTEMPT)
    assert merge_commit_files(off, store, files, ()) == (tuple(files), ())
    on = CommitMerger(KEYED, TableOptions(ON), ATTEMPT)
    once = merge_commit_files(on, store, files, ())
    assert len(once[0]) == 1
    assert merge_commit_files(on, FaultyStore(store), *once) == once
