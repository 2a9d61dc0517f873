"""Files of distant stores: a row group's bytes are fetched at once, few requests for many columns, the same rows."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.parquet import reader as reader_module
from lakelog.storage.parquet.pages.fetched_ranges import fetch_ranges, is_near
from lakelog.storage.parquet.reader import DataFileReader

from .data_files import write_data_file

SCHEMA = TableSchema(0, assign_field_ids(pa.schema([(f"c{number}", pa.string()) for number in range(20)])))


class Counted(io.BytesIO):
    """Bytes that count how often they are read."""

    reads = 0

    def read(self, *arguments: Any) -> bytes:
        Counted.reads += 1
        return super().read(*arguments)


class DistantStore(MemoryStore):
    """A store whose files are read by requests."""

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(Counted(super().open_input(path).read()), mode="r")


@pytest.mark.parametrize("fetched_bytes", [64 << 20, 100], ids=["fetched", "buffered"])
def test_rows_of_a_distant_file_are_the_same(monkeypatch: pytest.MonkeyPatch, fetched_bytes: int) -> None:
    monkeypatch.setattr(reader_module, "_FETCHED_BYTES", fetched_bytes)
    values = [f"text {number % 700}" for number in range(3000)]
    table = pa.table([pa.array(values)] * 20, schema=SCHEMA.arrow)
    near, distant = MemoryStore(), DistantStore()
    found = []
    for store in (near, distant):
        file = write_data_file(store, "data/1/f", SCHEMA, table)
        with DataFileReader(store, file) as reader:
            mapping = reader.map_columns(list(SCHEMA.arrow))
            Counted.reads = 0
            batches = [
                batch for budget in (64 << 20, 50_000) for batch in reader.read_batches(range(3), mapping, budget)
            ]
            found.append(pa.Table.from_batches(batches, mapping.schema))
    assert found[0] == found[1]
    assert found[0].slice(0, 3000) == table
    if fetched_bytes > 100:
        # One for each row group and read of it, instead of at least one for each column.
        assert Counted.reads <= 2 * 3 * 2


def test_what_was_not_fetched_is_read_when_it_is_needed() -> None:
    data = np.arange(1_000_000, dtype=np.uint32).tobytes()
    source = pa.BufferReader(data)
    assert is_near(source)
    fetched = fetch_ranges(source, [range(500, 900), range(100, 200), range(2_000_000, 2_000_100)])
    for place, count in [
        (0, 10),
        (100, 100),
        (150, 400),
        (880, 40),
        (2_000_000, 100),
        (2_000_050, 100),
        (3_999_990, 50),
    ]:
        assert fetched.read_at(count, place) == data[place : place + count]
    assert fetched.seek(-4, io.SEEK_END) == len(data) - 4
    assert fetched.read() == data[-4:]
    assert (fetched.tell(), fetched.read(5)) == (len(data), b"")
