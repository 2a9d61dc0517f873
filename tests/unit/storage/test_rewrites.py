"""What rewriting runs and files makes: the rows, the files, what a commit says of them, and the memory it takes."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench.shapes import random_strings
from lakelog.errors import DataCorrupted, InvalidArgument, Unavailable
from lakelog.format.keys.encoding import encode_key
from lakelog.format.tables.files import DataFile
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.options.values import TableOptions
from lakelog.storage.merging.aligned_runs import RunPart, read_run
from lakelog.storage.objects.local import LocalStore
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.reader import DataFileReader
from lakelog.storage.rewrite.append import FileRewrite, check_window, rewrite_files
from lakelog.storage.rewrite.runs import RunRewrite, rewrite_runs
from lakelog.storage.write.table_writer import TableWriter
from lakelog.testing.faulty_store import FaultyStore

FIELDS = [pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64()), pa.field("text", pa.string())]
KEYED = TableSchema(0, assign_field_ids(pa.schema(FIELDS)), primary_key=("id",))
PLAIN = TableSchema(0, assign_field_ids(pa.schema(FIELDS)))
OPTIONS = TableOptions({"bucket": "1", "target-file-size": "1 mb"})
ATTEMPT = "c" * 32
SHARED = [field.name for field in dataclasses.fields(DataFile) if field.name in LiveFile.__dataclass_fields__]


def make_rows(ids: Sequence[int] | np.ndarray, value: int, schema: TableSchema = KEYED) -> pa.Table:
    texts = random_strings(np.random.default_rng(value), len(ids), 60, 100)
    return pa.table([pa.array(ids, pa.int64()), pa.array([value] * len(ids), pa.int64()), texts], schema=schema.arrow)


def to_live(files: Sequence[DataFile], order: int) -> list[LiveFile]:
    return [
        LiveFile(
            order * 100 + ordinal,
            **{name: getattr(file, name) for name in SHARED},
            added_snapshot=order,
            order_snapshot=order,
            order_ordinal=0 if file.level else ordinal,
            order_time_ms=1000 * order,
        )
        for ordinal, file in enumerate(files)
    ]


def write(store: ObjectStore, order: int, rows: pa.Table, schema: TableSchema = KEYED, kind: int = 0) -> list[LiveFile]:
    writer = TableWriter(store, schema, OPTIONS, f"{order:032x}")
    writer.write(rows, np.full(rows.num_rows, kind, np.int8) if kind else None)
    return to_live(writer.finish(), order)


def rewrite(
    store: ObjectStore, inputs: Sequence[LiveFile], rest: Sequence[LiveFile] = (), **more: int
) -> list[DataFile]:
    work = RunRewrite("r", tuple(inputs), tuple(rest), 10**6, 3)
    return [*rewrite_runs(store, KEYED, OPTIONS, ATTEMPT, work, **more)]


def read(store: ObjectStore, files: Sequence[DataFile], schema: TableSchema = KEYED) -> pa.Table:
    tables = [read_run(DataFiles(store), RunPart(file, list(schema.arrow))) for file in to_live(files, 99)]
    return pa.concat_tables(tables)


def test_the_new_files_are_one_sorted_run_of_the_target_size() -> None:
    store = MemoryStore()
    inputs = write(store, 1, make_rows(range(80_000), 1)) + write(store, 2, make_rows(range(0, 80_000, 7), 2))
    made = rewrite(store, inputs)
    found = read(store, made)
    assert found.column("id").to_pylist() == list(range(80_000))
    assert found.column("v").to_pylist() == [1 if number % 7 else 2 for number in range(80_000)]
    sizes = [file.size_bytes for file in made]
    assert len(made) > 2
    assert all(1 << 20 <= size < 2 << 20 for size in sizes[:-1]), sizes
    ends = list(itertools.accumulate(file.row_count for file in made))
    for file, start, end in zip(made, [0, *ends], ends, strict=False):
        assert (file.level, file.partition, file.bucket, file.delete_count) == (3, b"", 0, 0)
        assert file.min_key == encode_key([pa.scalar(start, pa.int64())])
        assert file.max_key == encode_key([pa.scalar(end - 1, pa.int64())])
        assert file.statistics[0].min_value == file.min_key
        assert file.deletion_vector_path is None


def test_deletes_stay_where_a_run_below_can_hold_their_key() -> None:
    store = MemoryStore()
    below = write(store, 1, make_rows(range(100, 200), 1))
    inputs = write(store, 2, make_rows([50, 150, 250], 2), kind=3) + write(store, 3, make_rows([250, 300], 3))
    (file,) = rewrite(store, inputs, below, memory_bytes=1)
    assert (file.row_count, file.delete_count) == (5 - 1, 2)
    (file,) = [*rewrite_runs(store, KEYED, OPTIONS, "d" * 32, RunRewrite("r", tuple(inputs), (), 0, 5))]
    assert (file.row_count, file.delete_count) == (2, 0)
    with DataFileReader(store, to_live([file], 9)[0]) as reader:
        assert reader.metadata.schema.names == ["id", "v", "text"]


def test_nothing_is_written_where_nothing_is_left() -> None:
    store = MemoryStore()
    inputs = write(store, 1, make_rows(range(10), 1)) + write(store, 2, make_rows(range(10), 2), kind=3)
    assert rewrite(store, inputs) == []
    assert [each.path for each in store.list_objects() if ATTEMPT in each.path] == []


def test_a_run_left_out_between_two_is_refused() -> None:
    store = MemoryStore()
    runs = [write(store, order, make_rows(range(10), order)) for order in (1, 2, 3)]
    with pytest.raises(InvalidArgument, match="lies between"):
        rewrite(store, runs[0] + runs[2], runs[1])
    elsewhere = write(store, 4, make_rows(range(50, 60), 4))
    later = write(store, 5, make_rows(range(60), 5))
    # One that shares no key with what is older is none.
    (file,) = rewrite(store, runs[2] + later, elsewhere)
    assert file.row_count == 60


def test_old_files_are_read_through_the_schema_of_now() -> None:
    store = MemoryStore()
    old = write(store, 1, make_rows(range(10), 1))
    fields = [
        KEYED.arrow.field("id"),
        pa.field("renamed", pa.float64(), metadata=KEYED.arrow.field("v").metadata),
        pa.field("new", pa.string(), metadata={b"PARQUET:field_id": b"9"}),
    ]
    schema = TableSchema(1, pa.schema(fields), primary_key=("id",))
    rows = pa.table([[3], [0.5], ["x"]], schema=schema.arrow)
    new = write(store, 2, rows, schema)
    work = RunRewrite("r", (*old, *new), (), 0, 1)
    (file,) = rewrite_runs(store, schema, OPTIONS, ATTEMPT, work)
    assert file.schema_id == 1
    found = read(store, [file], schema).to_pylist()
    assert found[2:4] == [{"id": 2, "renamed": 1.0, "new": None}, {"id": 3, "renamed": 0.5, "new": "x"}]
    assert len(file.statistics) == 3


@pytest.mark.parametrize("memory_bytes", [1, 300_000, 1 << 30])
def test_row_groups_are_read_in_parts_where_runs_are_many(memory_bytes: int) -> None:
    store = MemoryStore()
    random = np.random.default_rng(1)
    inputs: list[LiveFile] = []
    wanted: dict[int, int] = {}
    for order in range(1, 8):
        ids = np.sort(random.choice(30_000, 8_000, replace=False))
        inputs += write(store, order, make_rows(ids, order))
        wanted |= dict.fromkeys(ids.tolist(), order)
    found = read(store, rewrite(store, inputs, memory_bytes=memory_bytes))
    assert dict(zip(found.column("id").to_pylist(), found.column("v").to_pylist(), strict=True)) == wanted
    assert found.column("id").to_pylist() == sorted(wanted)


def test_memory_does_not_follow_the_size_of_the_bucket(tmp_path: Path) -> None:
    peaks = [_measure_rewrite(LocalStore(str(tmp_path / str(times))), 200_000 * times) for times in (1, 8)]
    assert peaks[1] < 1.25 * peaks[0], peaks
    assert peaks[1] < 32 << 20, peaks


def _measure_rewrite(store: ObjectStore, rows: int) -> int:
    """The most Arrow memory held at once; the rows take 100 bytes each."""
    inputs: list[LiveFile] = []
    for order in range(1, 6):
        step = 1 if order == 1 else 5
        inputs += write(store, order, make_rows(np.arange(0, rows, step), order))
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    try:
        made = rewrite(store, inputs, memory_bytes=4 << 20)
    finally:
        pa.set_memory_pool(usual)
    assert sum(file.row_count for file in made) == rows
    peak = pool.max_memory()
    assert peak is not None
    return peak


def test_a_failure_leaves_no_file_behind() -> None:
    inner = MemoryStore()
    inputs = write(inner, 1, make_rows(range(60_000), 1)) + write(inner, 2, make_rows(range(0, 60_000, 3), 2))
    for operation, number in (("create", 1), ("create", 2), ("commit", 1), ("commit", 2), ("open_input", 1)):
        store = FaultyStore(inner)
        store.fail_at(operation, number)  # type: ignore[arg-type]
        with pytest.raises((Unavailable, DataCorrupted)):
            rewrite(store, inputs)
        assert [each.path for each in inner.list_objects() if ATTEMPT in each.path] == []


def test_files_of_an_append_table_are_put_together_in_their_order() -> None:
    store = MemoryStore()
    inputs = [
        file
        for order in range(1, 31)
        for file in write(store, order, make_rows(range(order * 1000, (order + 1) * 1000), order, PLAIN), PLAIN)
    ]
    made = rewrite_files(store, PLAIN, OPTIONS, ATTEMPT, FileRewrite("a", tuple(inputs)))
    assert 1 < len(made) < len(inputs)
    assert all(1 << 20 <= file.size_bytes < 2 << 20 for file in made[:-1])
    assert all((file.level, file.delete_count, file.min_key) == (0, 0, None) for file in made)
    found = read(store, made, PLAIN)
    assert found.column("id").to_pylist() == list(range(1000, 31_000))


def test_a_window_that_would_change_the_order_of_rows_is_refused() -> None:
    store = MemoryStore()
    files = [file for order in (1, 2, 3) for file in write(store, order, make_rows([order], order, PLAIN), PLAIN)]
    files += [dataclasses.replace(files[2], file_id=file_id) for file_id in (401, 402)]
    options = TableOptions({"bucket": "1", "bucket-key": "id"})
    for chosen, is_right in (
        ([0, 1], True),
        ([0, 2], False),
        ([2, 3], False),
        ([3, 4], True),
        ([1, 2, 3, 4], True),
    ):
        rest = tuple(file for place, file in enumerate(files) if place not in chosen)
        rewrite = FileRewrite("a", tuple(files[place] for place in chosen), rest)
        if is_right:
            check_window(rewrite.inputs, rewrite.rest)
            continue
        with pytest.raises(InvalidArgument, match="another order"):
            rewrite_files(store, PLAIN, options, ATTEMPT, rewrite)


def test_a_failure_of_that_leaves_no_file_behind_either() -> None:
    inner = MemoryStore()
    inputs = [*write(inner, 1, make_rows(range(60_000), 1, PLAIN), PLAIN)]
    for operation, number in (("create", 1), ("commit", 2), ("open_input", 3)):
        store = FaultyStore(inner)
        store.fail_at(operation, number)  # type: ignore[arg-type]
        with pytest.raises((Unavailable, DataCorrupted)):
            rewrite_files(store, PLAIN, OPTIONS, ATTEMPT, FileRewrite("a", tuple(inputs)))
        assert [each.path for each in inner.list_objects() if ATTEMPT in each.path] == []
