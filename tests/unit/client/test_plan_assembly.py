"""Chunks of a plan become one table in the promised order."""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from lakelog.client.connection.plan_assembly import ORDER, assemble_files
from lakelog.errors import DataCorrupted
from lakelog.format.tables.files import FILE_SCHEMA, STATISTICS_FIELD

Row = tuple[int, bytes, int, int, int]


def chunk(rows: list[Row]) -> bytes:
    columns: dict[str, list[object]] = {
        field.name: [None if field.nullable else 0] * len(rows) for field in FILE_SCHEMA
    }
    columns["path"] = [""] * len(rows)
    for place, name in enumerate(("file_id", *ORDER[:-1])):
        columns[name] = [row[place] for row in rows]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, FILE_SCHEMA) as writer:
        writer.write_table(pa.table(columns, schema=FILE_SCHEMA))
    return sink.getvalue().to_pybytes()


rows = st.tuples(st.integers(0, 30), st.binary(max_size=2), st.integers(0, 3), st.integers(0, 5), st.integers(0, 3))


@given(st.lists(st.tuples(st.lists(rows, max_size=8), st.lists(st.integers(0, 30), max_size=4)), max_size=5))
def test_any_chunks(chunks: list[tuple[list[Row], list[int]]]) -> None:
    files = assemble_files((chunk(entries), without) for entries, without in chunks)
    gone = {file_id for _, without in chunks for file_id in without}
    expected = [row for entries, _ in chunks for row in entries if row[0] not in gone]
    got = list(zip(*(files[name].to_pylist() for name in ("file_id", *ORDER[:-1])), strict=True))
    assert sorted(got) == sorted(expected)
    # What a compaction wrote into one bucket has one place, and stays in the order of the files' numbers.
    assert ORDER[-1] == "file_id"
    assert [(*row[1:], row[0]) for row in got] == sorted((*row[1:], row[0]) for row in expected)
    assert files.schema.equals(FILE_SCHEMA)


def test_no_chunks() -> None:
    assert assemble_files([]).num_rows == 0
    assert assemble_files([]).schema.equals(FILE_SCHEMA)


def other_stream() -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("a", pa.int64())])) as writer:
        writer.write_table(pa.table({"a": [1]}))
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("damaged", [b"", b"no arrow", chunk([(1, b"", 0, 1, 0)])[:-40], other_stream()])
def test_a_damaged_chunk_is_named(damaged: bytes) -> None:
    good = chunk([(1, b"", 0, 1, 0)])
    with pytest.raises(DataCorrupted, match=rf"Chunk 1 of the plan \({len(damaged)} bytes\)"):
        assemble_files([(good, ()), (damaged, ())])


def test_statistics_of_a_metastore_that_sends_none() -> None:
    """An earlier version does not know the request."""
    files = assemble_files([(chunk([(1, b"", 0, 0, 0)]), ())], with_statistics=True)
    assert files.column("statistics").to_pylist() == [None]
    assert files.schema.equals(FILE_SCHEMA.append(STATISTICS_FIELD))
