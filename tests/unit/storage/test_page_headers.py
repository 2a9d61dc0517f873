"""What the headers of pages say: as they were written, with every codec, and of files that lie."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.storage.parquet.pages import page_headers
from lakelog.storage.parquet.pages.page_headers import ChunkPages, Page, chunk_range, read_chunk_pages


def pages_of(data: pa.Buffer, column: int = 0, group: int = 0) -> ChunkPages:
    source = pa.BufferReader(data)
    return read_chunk_pages(source.read_at, pq.ParquetFile(source).metadata.row_group(group).column(column))


def write(values: pa.Array, **options: Any) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"c": values}), sink, **options)
    return sink.getvalue()


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "lz4", "zstd", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_are_as_they_were_written(codec: str, version: str) -> None:
    texts = pa.array([f"text {number}" for number in range(1000)])
    data = write(texts, compression=codec, data_page_version=version, use_dictionary=False, write_page_checksum=True)
    found = pages_of(data)
    assert found.value_count == 1000
    assert texts.nbytes - 8 <= found.data_bytes <= texts.nbytes + 100
    assert (found.dictionary_bytes, found.has_indices, found.shares_prefixes) == (0, False, False)


def test_a_page_follows_another_and_statistics_of_any_length_lie_between() -> None:
    texts = pa.array([str(number) * 5000 for number in range(200)])
    data = write(texts, use_dictionary=False, data_page_size=50_000, write_batch_size=5, compression="zstd")
    found = pages_of(data)
    assert len(found.pages) > 10
    assert found.value_count == 200
    assert found.largest_bytes < 100_000


def test_a_dictionary_and_what_does_not_fit_into_it() -> None:
    texts = pa.array([f"{number:0100d}" for number in range(5000)])
    found = pages_of(write(texts, dictionary_pagesize_limit=100_000, compression="zstd"))
    assert found.has_indices
    assert 100_000 <= found.dictionary_bytes == found.dictionary_count * 104 < 300_000
    assert found.value_count == 5000
    assert found.data_bytes > 100_000


def test_prefixes_that_are_stored_once_are_noticed() -> None:
    texts = pa.array(["x" * 1000] * 100)
    for encoding in ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"):
        data = write(texts, use_dictionary=False, column_encoding={"c": encoding})
        assert pages_of(data).shares_prefixes
    data = write(pa.array(np.arange(100)), use_dictionary=False, column_encoding={"c": "DELTA_BINARY_PACKED"})
    assert not pages_of(data).shares_prefixes


def number(value: int) -> bytes:
    found = bytearray()
    value = value << 1 ^ value >> 63
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def header(size: int, stored: int, values: int, more: bytes = b"") -> bytes:
    """A header of a data page: kind 0, its sizes, then its number of values and PLAIN."""
    described = b"\x15" + number(values) + b"\x15\x00\x15\x06\x15\x06\x00"
    return b"\x15\x00\x15" + number(size) + b"\x15" + number(stored) + b"\x2c" + described + more + b"\x00"


def read(data: bytes, values: int = 10, codec: str = "ZSTD") -> ChunkPages:
    chunk = SimpleNamespace(
        data_page_offset=0,
        has_dictionary_page=False,
        dictionary_page_offset=None,
        total_compressed_size=len(data),
        num_values=values,
        compression=codec,
    )
    return read_chunk_pages(lambda count, place: data[place : place + count], cast(Any, chunk))


def test_headers_are_read_as_far_as_the_values_go() -> None:
    data = (header(100, 20, 6) + bytes(20)) * 3
    assert read(data).pages == (Page(6, 100), Page(6, 100))
    assert read(data, 6).pages == (Page(6, 100),)
    assert read(data, 0).pages == ()


def test_a_field_that_comes_twice_has_its_last_value_as_for_other_readers() -> None:
    # Field 2, its number given in full, behind everything else.
    twice = header(100, 20, 10, more=b"\x05" + number(2) + number(5000))
    assert read(twice + bytes(20)).pages == (Page(10, 5000),)


@pytest.mark.parametrize(
    ("size", "stored", "codec"),
    [(2_000_000_000, 1000, "ZSTD"), (1_000_000, 1000, "SNAPPY"), (10_000, 1000, "UNCOMPRESSED"), (10, 10**6, "ZSTD")],
)
@pytest.mark.parametrize("is_checked", [True, False], ids=["protected", "control"])
def test_a_page_that_no_codec_can_make_is_refused(
    monkeypatch: pytest.MonkeyPatch, size: int, stored: int, codec: str, is_checked: bool
) -> None:
    page = header(size, stored, 10) + bytes(min(stored, 5000))
    if is_checked:
        with pytest.raises(ValueError, match=f"a page of {stored} bytes claims .* to {size}, which {codec} cannot do"):
            read(page, codec=codec)
    else:
        monkeypatch.setattr(page_headers, "_ROOM_BYTES", 1 << 40)
        assert read(page, codec=codec).pages == (Page(10, size),)


def test_damaged_headers_are_refused() -> None:
    whole = header(100, 20, 10)
    for data in (
        whole[:6],
        b"",
        b"\x15" * 40,
        b"\xff" * 300,
        b"\x19\x1c" + whole,
        header(-5, 20, 10) + bytes(20),
        header(100, -20, 10) + bytes(20),
        header(100, 20, -1) + bytes(20),
        b"\x00" * 50,
    ):
        if not data:
            assert read(data).pages == ()
            continue
        with pytest.raises(ValueError, match="header"):
            read(data)


def test_random_bytes_never_do_more_than_be_refused() -> None:
    dice = np.random.default_rng(5)
    for _ in range(2000):
        data = dice.integers(0, 256, 300, np.uint8).tobytes()
        try:
            read(data)
        except ValueError as error:
            assert len(str(error)) < 300  # noqa: PT017


def test_a_header_of_any_allowed_length_is_read() -> None:
    # An unknown text of 100,000 bytes.
    text = b"\xa8" + bytes([0xA0, 0x8D, 0x06]) + bytes(100_000)
    assert read(header(100, 20, 10, more=text) + bytes(20)).pages == (Page(10, 100),)
    with pytest.raises(ValueError, match="cut off, or longer than any"):
        read(header(100, 20, 10, more=b"\xa8" + bytes([0x80, 0x80, 0x80, 0x10]) + bytes(32 << 20)) + bytes(20))


def test_the_range_of_a_chunk_begins_with_its_dictionary() -> None:
    metadata = pq.ParquetFile(pa.BufferReader(write(pa.array(["a", "b"] * 10)))).metadata
    chunk = metadata.row_group(0).column(0)
    assert chunk_range(chunk).start == chunk.dictionary_page_offset == 4
    assert len(chunk_range(chunk)) == chunk.total_compressed_size
