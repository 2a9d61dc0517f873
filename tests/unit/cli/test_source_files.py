"""Files that `lakelog insert` reads: a batch at a time, and how far it has come."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from lakelog.cli.input.source_files import RowPlace, detect_format, open_batches
from lakelog.errors import InvalidArgument

_ROWS = 600_000
_SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return pa.table(
        [pa.array(range(_ROWS), pa.int64()), pa.repeat("forty characters of text in each of them", _ROWS)], _SCHEMA
    )


@pytest.mark.parametrize("name", ["f.csv", "f.csv.gz", "f.jsonl", "f.parquet", "f.arrow"])
def test_a_file_is_never_held_as_a_whole(tmp_path: Path, rows: pa.Table, name: str) -> None:
    path = tmp_path / name
    kind = detect_format(name)
    if kind == "csv":
        pc.write_csv(rows, tmp_path / "f.csv")
        if name.endswith(".gz"):
            path.write_bytes(gzip.compress((tmp_path / "f.csv").read_bytes(), 1))
    elif kind == "json":
        line = '{"id": 1, "text": "forty characters of text in each of them"}\n'
        path.write_text(line * _ROWS)
    elif kind == "parquet":
        pq.write_table(rows, path, row_group_size=100_000, use_dictionary=False)
    else:
        with pa.ipc.new_file(path, _SCHEMA) as writer:
            writer.write_table(rows, max_chunksize=50_000)
    before, peak, count, read = pa.total_allocated_bytes(), 0, 0, [0]
    with open_batches(str(path), kind, _SCHEMA) as file:
        for batch in file.batches:
            count += batch.num_rows
            peak = max(peak, pa.total_allocated_bytes() - before)
            read.append(file.bytes_read())
    assert count == _ROWS
    assert peak < rows.nbytes * 0.6, f"{peak} bytes of {rows.nbytes}"
    assert read == sorted(read)
    assert path.stat().st_size * 0.9 < read[-1] <= path.stat().st_size
    assert any(0 < each < path.stat().st_size * 0.9 for each in read)


@pytest.mark.parametrize("name", ["f.csv", "f.jsonl", "f.parquet", "f.arrow", "f.feather"])
def test_a_file_without_rows_is_one_batch_without_rows(tmp_path: Path, name: str) -> None:
    """Its columns are looked at all the same."""
    path = tmp_path / name
    path.write_text("id,text\n" if name == "f.csv" else "")
    if name == "f.parquet":
        pq.write_table(_SCHEMA.empty_table(), path)
    elif detect_format(name) == "arrow":
        with (pa.ipc.new_file if name == "f.arrow" else pa.ipc.new_stream)(path, _SCHEMA):
            pass
    with open_batches(str(path), detect_format(name), _SCHEMA) as file:
        assert [(batch.num_rows, file.bytes_read() >= 0) for batch in file.batches] == [(0, True)]
        assert file.schema.names == ["id", "text"]


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("a.b.csv", "csv"),
        ("A.CSV.GZ", "csv"),
        ("x.ndjson.zst", "json"),
        ("x.feather", "arrow"),
        ("x.parquet", "parquet"),
    ],
)
def test_a_name_shows_its_format(name: str, format_: str) -> None:
    assert detect_format(name) == format_


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("x.gz", "does not tell its format"),
        ("x", "does not tell"),
        ("-", "standard input"),
        ("x.parquet.gz", "Unpack it"),
    ],
)
def test_a_name_that_shows_no_format(name: str, reported: str) -> None:
    with pytest.raises(InvalidArgument, match=reported):
        detect_format(name)


def test_the_place_of_a_single_row_is_that_row() -> None:
    place = RowPlace()
    batches = [pa.record_batch({"id": [1, 2]}), pa.record_batch({"id": [3]})]
    assert [place.show() for _ in place.count(batches)] == ["rows 1 to 2", "row 3"]
