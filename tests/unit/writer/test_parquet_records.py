"""Rows of Parquet files that somebody else wrote: values, other types, damage, and files that claim too much."""

from __future__ import annotations

import decimal
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from writer.pipeline.spec import Format, RowKindSource

from .cases import Case, places


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def test_parquet_rows(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array([1, 2, None, 4]), "name": ["a", None, "c", "d"], "price": ["1.5", "x", "2", None]})
    rows, bad = Case(tmp_path, Format.PARQUET).read(parquet(table))
    assert rows == [{"id": 1, "name": "a", "price": decimal.Decimal("1.50")}, {"id": 4, "name": "d"}]
    assert places(bad) == [(2, "price"), (3, "id")]
    assert json.loads(bad[0]["raw"]) == {"id": 2, "name": None, "price": "x"}


def test_parquet_of_another_type_is_refused_whole(tmp_path: Path) -> None:
    rows, bad = Case(tmp_path, Format.PARQUET).read(parquet(pa.table({"id": [1], "day": [1.5]})))
    assert rows == []
    assert places(bad) == [(None, None)]
    assert "column 'day' is double, the table's is date32" in bad[0]["reason"]


def test_damaged_parquet(tmp_path: Path) -> None:
    whole = parquet(pa.table({"id": list(range(10_000))}), write_page_checksum=True, use_dictionary=False)
    flipped = bytearray(whole)
    flipped[2000] ^= 255
    for data in (b"", b"PAR1", whole[:-9], whole[: len(whole) // 2], bytes(flipped), b"\x00" * 5000):
        rows, bad = Case(tmp_path, Format.PARQUET).read(data)
        assert rows == []
        assert places(bad) == [(None, None)]
        assert "damaged" in bad[0]["reason"]


def test_a_dictionary_that_claims_gigabytes_is_read_in_small_parts(tmp_path: Path) -> None:
    names = pa.DictionaryArray.from_arrays(pa.array([0] * 2000), ["x" * 10_000_000])
    table = pa.table({"id": list(range(2000)), "name": names})
    path = tmp_path / "bomb"
    path.write_bytes(parquet(table, compression="zstd"))
    assert path.stat().st_size < 100_000
    before = pa.total_allocated_bytes()
    from writer.records.parquet_records import read_parquet

    with pa.OSFile(str(path)) as file:
        part = next(iter(read_parquet(file)))
        assert part.count * 10_000_000 < 100_000_000
        assert pa.total_allocated_bytes() - before < 400_000_000


@pytest.mark.parametrize("data_type", [pa.large_string(), pa.large_binary()], ids=str)
def test_large_types_are_read_in_small_parts_too(tmp_path: Path, data_type: pa.DataType) -> None:
    names = pa.repeat(pa.scalar(b"x" * 1_000_000, pa.large_binary()), 200).view(data_type)
    path = tmp_path / "file"
    path.write_bytes(parquet(pa.table({"id": list(range(200)), "name": names}), compression="zstd"))
    del names
    from writer.records.parquet_records import read_parquet

    with pa.OSFile(str(path)) as file:
        counts = [part.count for part in read_parquet(file)]
    assert (sum(counts), max(counts) < 100) == (200, True)


def test_texts_of_large_types_are_texts(tmp_path: Path) -> None:
    # As polars and DuckDB say in the schema of the files that they write.
    large = pa.large_string()
    table = pa.table({"id": [1, 2], "name": pa.array(["a", "b"], large), "op": pa.array(["+I", "-D"], large)})
    case = Case(tmp_path, Format.PARQUET, row_kind=RowKindSource("op"))
    rows, bad = case.read(parquet(table))
    assert [(row["name"], row["_row_kind"]) for row in rows] == [("a", "+I"), ("b", "-D")]
    assert bad == []


def test_a_bad_record_may_hold_what_python_cannot_show(tmp_path: Path) -> None:
    far = pa.array([400_000_000_000_000_000], pa.timestamp("us"))
    rows, bad = Case(tmp_path, Format.PARQUET).read(parquet(pa.table({"id": [1], "small": [999], "local": far})))
    assert (rows, places(bad)) == ([], [(1, "small")])
    assert json.loads(bad[0]["raw"])["local"] == "a value that cannot be shown"
