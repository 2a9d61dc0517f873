"""Rows of Parquet files that somebody else wrote, so that a damaged or hostile one must do no harm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as pt

from lakelog.records.bad_records import FileRefused
from lakelog.records.source_rows import SourceRows

_BATCH_ROWS: Final = 16_384
_MAX_FOOTER_BYTES: Final = 64 << 20
_MAX_CONTAINER_ITEMS: Final = 1_000_000
_MAX_SCHEMA_DEPTH: Final = 200
_MAX_COLUMN_CHUNK_BYTES: Final = 1 << 30
"""Of one column in one row group, unpacked: writers make row groups of some 128 MB, all columns together."""

_MAX_BATCH_BYTES: Final = 64 << 20
"""Of one string column; a dictionary lets a small file claim far more."""


def read_parquet(source: pa.NativeFile) -> Iterator[SourceRows]:
    """Reads the rows of a Parquet file. Runs on executors.

    Yields:
        Rows in order, at most `_BATCH_ROWS` at once, columns with the file's own types.

    Raises:
        FileRefused: It is damaged or claims more than is reasonable; what was yielded before is right.
    """
    try:
        yield from _read(source)
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError, MemoryError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileRefused(f"it is damaged or no Parquet file: {text[:300]}") from error


def _read(source: pa.NativeFile) -> Iterator[SourceRows]:
    limits: dict[str, Any] = {
        "thrift_string_size_limit": _MAX_FOOTER_BYTES,
        "thrift_container_size_limit": _MAX_CONTAINER_ITEMS,
        "schema_depth_limit": _MAX_SCHEMA_DEPTH,
        "page_checksum_verification": True,
        "arrow_extensions_enabled": False,
    }
    opened = pq.ParquetFile(source, **limits)
    metadata, schema = opened.metadata, opened.schema_arrow
    doubled = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if doubled:
        raise FileRefused(f"it has the column '{doubled[0][:100]}' twice")
    _check_sizes(metadata)
    # Strings stay dictionaries until their size is known.
    texts = [field.name for field in schema if _is_text(field.type)]
    opened = pq.ParquetFile(source, metadata=metadata, read_dictionary=texts, **limits)
    first = 1
    for batch in opened.iter_batches(_BATCH_ROWS):
        for part in _bounded(batch):
            lines = first + np.arange(part.num_rows, dtype=np.int64)
            yield _rows(part, lines)
            first += part.num_rows
    if first - 1 != metadata.num_rows:
        raise FileRefused(f"it holds {first - 1} rows where its footer says {metadata.num_rows}")


def _check_sizes(metadata: pq.FileMetaData) -> None:
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            size = metadata.row_group(group).column(column).total_uncompressed_size
            if not 0 <= size <= _MAX_COLUMN_CHUNK_BYTES:
                raise FileRefused(
                    f"column '{metadata.schema.column(column).path[:100]}' claims {size} bytes in row group {group}, "
                    f"and at most {_MAX_COLUMN_CHUNK_BYTES} are read. Write smaller row groups."
                )


def _bounded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Parts of a batch whose strings, one by one, are not larger than allowed."""
    rows = batch.num_rows
    for column in batch.columns:
        if pt.is_dictionary(column.type) and len(column.dictionary):
            longest = max(column.dictionary.nbytes // len(column.dictionary), 1)
            longest = max(longest, int(pa.compute.max(pa.compute.binary_length(column.dictionary)).as_py() or 0))
            rows = min(rows, max(_MAX_BATCH_BYTES // longest, 1))
    for start in range(0, batch.num_rows, max(rows, 1)):
        yield batch.slice(start, rows)


def _shown(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        # A time beyond the years that Python knows, or text that is not UTF-8.
        return "a value that cannot be shown"


def _is_text(data_type: pa.DataType) -> bool:
    """Whether values may be of any length: `large_` types too, as polars and DuckDB write them into a file's schema."""
    kinds = (pt.is_string, pt.is_large_string, pt.is_string_view, pt.is_binary, pt.is_large_binary, pt.is_binary_view)
    return any(is_kind(data_type) for is_kind in kinds)


def _rows(batch: pa.RecordBatch, lines: np.ndarray[Any, np.dtype[np.int64]]) -> SourceRows:
    columns = {
        name: column.dictionary_decode() if pt.is_dictionary(column.type) else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }

    def raw(row: int) -> bytes:
        values = {name: _shown(column[row]) for name, column in columns.items()}
        return json.dumps(values, default=str, ensure_ascii=False).encode("utf-8", "surrogatepass")

    return SourceRows(columns, batch.num_rows, lines, raw)
