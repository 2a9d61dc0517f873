from __future__ import annotations

import dataclasses
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.errors import DataCorrupted, ResourceExhausted
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.reader import DataFileReader

from .data_files import read_bytes, replace_bytes, write_data_file

PATH = "data/0/f.parquet"
SCHEMA = TableSchema(
    0,
    assign_field_ids(
        pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                pa.field("name", pa.string()),
                pa.field("tag", pa.string()),
                pa.field("items", pa.list_(pa.field("element", pa.float64()))),
            ]
        )
    ),
)


@pytest.fixture(scope="module")
def sound() -> tuple[MemoryStore, LiveFile, pa.Table]:
    rows = 3000
    random = np.random.default_rng(7)
    table = pa.table(
        {
            "id": np.arange(rows),
            "name": [f"name {value}" for value in random.integers(0, 10**9, rows)],
            "tag": [None if value == 0 else f"t{value}" for value in random.integers(0, 5, rows)],
            "items": [list(random.random(value)) for value in random.integers(0, 4, rows)],
        },
        schema=SCHEMA.arrow,
    )
    store = MemoryStore()
    return store, write_data_file(store, PATH, SCHEMA, table), table


def read(store: ObjectStore, file: LiveFile) -> pa.Table:
    with DataFileReader(store, file) as reader:
        mapping = reader.map_columns(list(SCHEMA.arrow))
        batches = list(reader.read_batches(range(reader.metadata.num_row_groups), mapping))
        return pa.Table.from_batches(batches, mapping.schema)


def test_truncation_at_every_twentieth_is_found_with_and_without_the_size(
    sound: tuple[MemoryStore, LiveFile, pa.Table],
) -> None:
    store, file, _ = sound
    data = read_bytes(store, PATH)
    for part in range(20):
        cut = data[: len(data) * part // 20]
        damaged = replace_bytes(store, PATH, cut)
        with pytest.raises(DataCorrupted, match=r"f\.parquet is damaged: it has \d+ bytes") as caught:
            read(damaged, file)
        assert caught.value.reason == "FILE_SIZE"
        # As if the commit itself had recorded the shorter size.
        with pytest.raises(DataCorrupted, match=r"f\.parquet is damaged"):
            read(damaged, dataclasses.replace(file, size_bytes=len(cut)))


def test_flipped_bytes_give_the_right_rows_or_an_error_that_names_the_file(
    sound: tuple[MemoryStore, LiveFile, pa.Table],
) -> None:
    store, file, table = sound
    data = read_bytes(store, PATH)
    random = np.random.default_rng(11)
    messages: list[str] = []
    for place in random.integers(0, len(data), 400):
        changed = bytearray(data)
        changed[place] ^= 1 << int(random.integers(0, 8))
        try:
            found = read(replace_bytes(store, PATH, bytes(changed)), file)
        except (DataCorrupted, ResourceExhausted) as error:
            messages.append(str(error))
        else:
            assert found.equals(table), f"byte {place} of {len(data)} changed the rows in silence"
    assert len(messages) > 300
    assert all("f.parquet" in message for message in messages)


def test_a_missing_file_is_reported_with_the_remedy(sound: tuple[MemoryStore, LiveFile, pa.Table]) -> None:
    _, file, _ = sound
    with pytest.raises(DataCorrupted, match="missing, though the table refers to it") as caught:
        read(MemoryStore(), file)
    assert caught.value.reason == "FILE_MISSING"


def test_rows_must_be_as_many_as_were_committed(sound: tuple[MemoryStore, LiveFile, pa.Table]) -> None:
    store, file, _ = sound
    with pytest.raises(DataCorrupted, match="it has 3000 rows, but was committed with 2999"):
        read(store, dataclasses.replace(file, row_count=2999))


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1PAR1", b"x" * 5000, b"PAR1" + b"\xff" * 4000 + b"PAR1"])
def test_what_is_no_parquet_file_is_refused(sound: tuple[MemoryStore, LiveFile, pa.Table], data: bytes) -> None:
    store, file, _ = sound
    with pytest.raises(DataCorrupted, match="is damaged"):
        read(replace_bytes(store, PATH, data), dataclasses.replace(file, size_bytes=len(data)))


def test_a_column_of_another_type_is_refused(sound: tuple[MemoryStore, LiveFile, pa.Table]) -> None:
    store, _, _ = sound
    names = pa.schema([field.with_type(pa.string()) for field in SCHEMA.arrow])
    other = write_data_file(
        store, "data/0/other", TableSchema(0, names), pa.table({name: ["x"] for name in names.names}, schema=names)
    )
    with pytest.raises(DataCorrupted, match=r"data/0/other is damaged.*'x'"):
        read(store, other)


def test_the_same_column_twice_is_refused(sound: tuple[MemoryStore, LiveFile, pa.Table]) -> None:
    store, file, _ = sound
    field = SCHEMA.arrow.field("id")
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1], "x": [2]}, schema=pa.schema([field, field.with_name("x")])), sink)
    data = sink.getvalue().to_pybytes()
    with pytest.raises(DataCorrupted, match="column 1"):
        read(replace_bytes(store, PATH, data), dataclasses.replace(file, size_bytes=len(data), row_count=1))


def test_a_small_file_that_unpacks_to_much_is_read_in_bounded_memory(tmp_path: object) -> None:
    """40 million equal rows in some kilobytes: reading them a batch at a time must not hold them all."""
    program = """
        import resource, pyarrow as pa, pyarrow.parquet as pq
        from lakelog.errors import DataCorrupted
        from lakelog.storage.objects.memory import MemoryStore
        from lakelog.storage.parquet.reader import DataFileReader
        from tests.unit.storage.test_damaged_files import SCHEMA, PATH, LiveFile
        field = SCHEMA.arrow.field("id")
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, pa.schema([field]), compression="zstd") as writer:
            batch = pa.table({"id": pa.repeat(pa.scalar(5, pa.int64()), 1 << 20)}, schema=pa.schema([field]))
            rows = 40 << 20
            writer.write_table(pa.concat_tables([batch] * 40), row_group_size=rows)
        store = MemoryStore()
        file = store.create(PATH)
        file.sink.write(sink.getvalue())
        size = file.commit()
        del sink, batch
        live = LiveFile(1, PATH, b"", 0, 0, rows, 0, size, None, None, 0, 1, 1, 0, 0)
        before = pa.total_allocated_bytes()
        most = 0
        with DataFileReader(store, live) as reader:
            count = 0
            for batch in reader.read_batches([0], reader.map_columns([field])):
                count += batch.num_rows
                most = max(most, pa.total_allocated_bytes() - before)
        assert count == rows, count
        assert size < 1 << 20, size
        assert most < 64 << 20, most
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
