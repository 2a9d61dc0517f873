"""Files that mean harm: what cannot be read is bad, what stands beside it is read, in bounded memory and time."""

from __future__ import annotations

import gzip
import io
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.types.convert import ValueLost, convert_values
from lakelog.records.csv_records import open_csv
from lakelog.records.text_options import TextOptions
from lakelog.writes.ingest import to_batches
from writer.pipeline.spec import Format

from .cases import Case

DEADLY = ["1e-999999999", "1e-9999", "1e-41", "-1E-77", "0e-999999999"]
"""No decimals, of which Arrow dies or makes 0."""


@pytest.mark.parametrize("format_", [Format.CSV, Format.JSON, Format.PARQUET])
def test_numbers_that_arrow_must_not_parse_are_bad(tmp_path: Path, format_: Format) -> None:
    texts = ["1.50", *DEADLY, "25e-1"]
    if format_ is Format.CSV:
        data = "id,price\n" + "".join(f"{number},{text}\n" for number, text in enumerate(texts))
    elif format_ is Format.JSON:
        data = "".join(f'{{"id": {number}, "price": {text}}}\n' for number, text in enumerate(texts))
    if format_ is Format.PARQUET:
        pq.write_table(pa.table({"id": range(len(texts)), "price": texts}), tmp_path / "made")
    content = (tmp_path / "made").read_bytes() if format_ is Format.PARQUET else data.encode()
    rows, bad = Case(tmp_path, format_).read(content)
    assert [(row["id"], row["price"]) for row in rows] == [(0, Decimal("1.50")), (6, Decimal("2.50"))]
    assert [letter["column"] for letter in bad] == ["price"] * len(DEADLY)


def test_nor_does_the_quick_way_of_csv() -> None:
    """It gives Arrow the types of the columns, for `lakelog insert`."""
    bad: list[object] = []
    text = "id,price\n" + "".join(f"{number},{text}\n" for number, text in enumerate(["2.5", *DEADLY]))
    types = {"id": pa.int64(), "price": pa.decimal128(8, 2)}
    _, parts = open_csv(io.BytesIO(text.encode()), TextOptions(), bad.append, types)
    assert {part.columns["price"].type for part in parts} == {pa.string()}, "the texts are parsed later"
    _, parts = open_csv(io.BytesIO(b"id,price\n1,2.5\n"), TextOptions(), bad.append, types)
    assert {part.columns["price"].type for part in parts} == {pa.decimal128(8, 2)}


@pytest.mark.parametrize("number", [1e-41, 1e-45, 1e-77, 1e-250, 5e-324])
def test_nor_a_float_that_no_decimal_is(number: float) -> None:
    with pytest.raises(ValueLost):
        convert_values(pa.array([1.5, number]), pa.field("price", pa.decimal128(38, 38)))
    assert convert_values(pa.array([1.5, 0.0]), pa.field("price", pa.decimal128(8, 2))).to_pylist()[1] == 0


def test_nor_a_number_of_a_program() -> None:
    with pytest.raises(InvalidArgument, match="more places than a decimal can have"):
        list(to_batches([{"price": Decimal("1e-999999")}]))


def test_a_header_of_many_columns_is_looked_through_once(tmp_path: Path) -> None:
    header = ",".join(f"c{number}" for number in range(100_000)) + ",c99999"
    rows, bad = Case(tmp_path, Format.CSV).read(f"{header}\n1,2\n".encode())
    assert rows == []
    assert "'c99999' twice" in bad[0]["reason"]


def test_a_small_file_that_unpacks_to_a_large_line_is_refused_early(tmp_path: Path) -> None:
    """60 MB in 60 KB; after the longest allowed record nothing more is unpacked."""
    data = gzip.compress(b"id,name\n1," + b"x" * (60 << 20), 1)
    text = TextOptions(max_record_bytes=8 << 20)
    before = pa.total_allocated_bytes()
    rows, bad = Case(tmp_path, Format.CSV, text).read(data, "bomb.csv.gz")
    assert rows == []
    assert "longer than 8388608 bytes" in bad[0]["reason"]
    assert pa.total_allocated_bytes() - before < 64 << 20


@pytest.mark.parametrize("seed", range(8))
def test_bits_that_flip_harm_no_other_line(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    lines = [f'{number},"name {number}",1.50,2026-01-31' for number in range(400)]
    data = ["id,name,price,day"]
    for number, line in enumerate(lines):
        data.append(line)
        if number % 2:
            damaged = bytearray(line.encode())
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(7)
            data.append(damaged.decode("latin-1").replace("\n", "?").replace("\r", "?"))
    rows, bad = Case(tmp_path, Format.CSV).read("\n".join(data).encode("latin-1"))
    wanted = {(number, f"name {number}") for number in range(400)}
    assert wanted <= {(row["id"], row.get("name")) for row in rows}
    assert len(rows) + len(bad) == len(data) - 1
