"""Reads one Parquet file: checks its footer against the plan, and finds its columns by field id.

A file can be damaged or malicious. Its size and row count must be those of the commit, and its footer must name its own
path. Thrift's own limits bound what a footer can claim, every page's checksum is verified, and any error of pyarrow
becomes `DataCorrupted` with the file's name. Rows are decoded in batches, and the headers of the pages decide their
size (`pages/decoding.py`). So memory depends neither on a footer's claims nor on the size that pages unpack to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.errors import (
    FILE_MISSING,
    INVALID_PATH,
    DataCorrupted,
    InvalidArgument,
    LakelogError,
    NotFound,
    ResourceExhausted,
)
from lakelog.format.types.widths import row_bytes
from lakelog.storage.objects.io_errors import translate_io_error
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.pages.decoding import DECODED_BYTES, Decoding, Leaf, TooLarge, plan_decoding, split_decoded
from lakelog.storage.parquet.pages.fetched_ranges import fetch_ranges, is_near
from lakelog.storage.parquet.pages.page_headers import chunk_range, read_chunk_pages
from lakelog.storage.parquet.read_counts import ReadCounts, ReadMetrics
from lakelog.storage.parquet.schema_mapping import (
    ColumnMapping,
    apply_mapping,
    find_field,
    make_empty_rows,
    map_columns,
)
from lakelog.storage.parquet.writer import PATH_KEY

BATCH_ROWS: Final = 65_536
"""Rows that are decoded at once, unless they are large."""

MAX_GROUP_ROWS: Final = 1 << 26
"""The most rows of a row group: readers keep a byte for each. Other programs write row groups of at most a million."""

_MAX_FOOTER_BYTES: Final = 32 << 20
"""A footer takes some twenty times its size in memory; for 5000 columns in 60 row groups it has 30 MB."""

_FETCHED_BYTES: Final = 64 << 20
"""The most bytes that are fetched at once from a store; more are read through a buffer, page by page."""

_BUFFER_BYTES: Final = 1 << 20

PARQUET_LIMITS: Final[dict[str, Any]] = {
    "thrift_string_size_limit": 64 << 20,
    "thrift_container_size_limit": 1_000_000,
    # A table's types are nested 32 deep at most; Parquet needs up to three levels for each.
    "schema_depth_limit": 200,
    "page_checksum_verification": True,
    "arrow_extensions_enabled": False,
}
"""What no file of ours exceeds, and what is checked of each."""

RowIndices = npt.NDArray[np.int64]


class DataFileReader:
    """An open data file. For one thread at a time; close it, or use it in a `with` statement.

    Args:
        store: Where the table's files are.
        file: Its entry in the plan.
        metadata: Its footer, if another reader of the same file has checked it.
        counts: Counts what `read_batches` reads; None: nothing is counted.

    Raises:
        DataCorrupted: It is missing, damaged, or differs from the plan.
    """

    def __init__(
        self,
        store: ObjectStore,
        file: LiveFile,
        metadata: pq.FileMetaData | None = None,
        counts: ReadCounts | None = None,
    ) -> None:
        self._counts = counts
        self.file: Final = file
        self.name: Final = f"{store.location}{file.path}"
        with translated(self.name):
            self._source = store.open_input(file.path)
            try:
                size_bytes = self._source.size()
                if size_bytes != file.size_bytes:
                    raise DataCorrupted(
                        f"it has {size_bytes} bytes, but was committed with {file.size_bytes}", reason="FILE_SIZE"
                    )
                if metadata is None:
                    check_footer_size(self._source, file.size_bytes, _MAX_FOOTER_BYTES)
                self._parquet = pq.ParquetFile(self._source, metadata=metadata, pre_buffer=False, **PARQUET_LIMITS)
                self.metadata: pq.FileMetaData = self._parquet.metadata
                self.row_group_starts: RowIndices = self._check_footer()
                self._schema: pa.Schema = self._parquet.schema_arrow
            except BaseException:
                self._source.close()
                raise

    def __enter__(self) -> DataFileReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; idempotent."""
        self._source.close()

    def find_field(self, field: pa.Field) -> pa.Field | None:
        """The column of this file that holds a column of a read; None: it has none."""
        with translated(self.name):
            return find_field(self._schema, field)

    def map_columns(self, fields: Sequence[pa.Field]) -> ColumnMapping:
        """Finds the columns of a read in this file."""
        with translated(self.name):
            return map_columns(self._schema, tuple(fields))

    def read_batches(
        self, row_groups: Sequence[int], mapping: ColumnMapping, budget_bytes: int = DECODED_BYTES
    ) -> Iterator[pa.RecordBatch]:
        """Reads some row groups in order, so that only one is buffered.

        Args:
            row_groups: Their numbers, rising.
            mapping: The result of `map_columns`.
            budget_bytes: About how much memory rows that are decoded at once take; a single row can take more.

        Yields:
            Batches of at most `BATCH_ROWS` rows with the columns of the mapping, in the order of the rows; their total
            is the number of rows in the row groups.

        Raises:
            DataCorrupted: The file is damaged, or a row of it takes more memory than allowed; named.
        """
        for group in row_groups:
            if self._counts is not None:
                self._counts.add(ReadMetrics(row_groups_read=1, bytes_read=self._stored_bytes(group, mapping)))
            wanted = int(self.row_group_starts[group + 1] - self.row_group_starts[group])
            found = 0
            for batch in self._decode(group, wanted, mapping, BATCH_ROWS, budget_bytes):
                found += batch.num_rows
                if found > wanted:
                    break
                yield batch
            if found != wanted:
                raise _too_few(self.name, group, found, wanted)

    def _stored_bytes(self, row_group: int, mapping: ColumnMapping) -> int:
        metadata = self.metadata.row_group(row_group)
        return sum(metadata.column(place).total_compressed_size for place in mapping.leaf_columns)

    def read_slice(
        self,
        row_group: int,
        start: int,
        end: int,
        mapping: ColumnMapping,
        budget_bytes: int = DECODED_BYTES,
        most_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Reads adjacent rows of a row group; rows after them are not decoded, those before them are.

        Args:
            row_group: Its number.
            start: The first row, counted from the row group's own first.
            end: The end, after the last row.
            mapping: The result of `map_columns`.
            budget_bytes: As in `read_batches`.
            most_rows: The most rows of a batch.

        Yields:
            Batches with the columns of the mapping, together `end - start` rows.

        Raises:
            DataCorrupted: As in `read_batches`.
        """
        found = 0
        for batch in self._decode(row_group, end, mapping, min(max(end, 1), most_rows), budget_bytes, start):
            first, last = max(start - found, 0), min(end - found, batch.num_rows)
            found += batch.num_rows
            if first < last:
                yield batch.slice(first, last - first)
            if found >= end:
                return
        raise _too_few(self.name, row_group, found, end)

    def _decode(
        self, group: int, rows: int, mapping: ColumnMapping, batch_rows: int, budget_bytes: int, start: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Decodes rows from the first on; rows before `start` can come without columns."""
        absent = [field.name for field, source in zip(mapping.fields, mapping.sources, strict=True) if source is None]
        if absent:
            batch_rows = max(1, min(batch_rows, budget_bytes // row_bytes(mapping.schema, absent)))
        if mapping.leaf_columns:
            with translated(self.name):
                parquet, decoding = self._prepare(group, mapping, batch_rows, budget_bytes)
                if decoding.dictionaries:
                    yield from self._decode_dictionaries(parquet, group, mapping, decoding.rows, budget_bytes, start)
                    return
                for batch in parquet.reader.iter_batches(decoding.rows, [group], list(mapping.leaf_columns)):
                    yield apply_mapping(batch, mapping)
            return
        # The file has none of the columns: all show their default or NULL, and only the number of rows matters.
        for done in range(0, rows, batch_rows):
            nulls = pa.nulls(min(batch_rows, rows - done))
            yield apply_mapping(pa.RecordBatch.from_arrays([nulls], names=[""]), mapping)

    def _decode_dictionaries(
        self, parquet: pq.ParquetFile, group: int, mapping: ColumnMapping, rows: int, budget_bytes: int, start: int
    ) -> Iterator[pa.RecordBatch]:
        """Decodes rows first to places in dictionaries, then to values, as many at once as fit into the budget."""
        done = 0
        for batch in parquet.reader.iter_batches(rows, [group], list(mapping.leaf_columns)):
            # Values of rows before the first wanted row need not be copied out of the dictionary.
            skipped = min(max(start - done, 0), batch.num_rows)
            done += batch.num_rows
            if skipped:
                yield make_empty_rows(skipped)
            wanted = batch.take(pa.array(np.arange(skipped, batch.num_rows))) if skipped else batch
            for part in split_decoded(wanted, budget_bytes) if wanted.num_rows else ():
                yield apply_mapping(part, mapping)

    def _prepare(
        self, group: int, mapping: ColumnMapping, batch_rows: int, budget_bytes: int
    ) -> tuple[pq.ParquetFile, Decoding]:
        """Decides by the headers of its pages how to decode a row group, and opens it accordingly."""
        metadata = self.metadata.row_group(group)
        chunks = [metadata.column(place) for place in mapping.leaf_columns]
        stored_bytes = sum(max(0, chunk.total_compressed_size) for chunk in chunks)
        is_large = stored_bytes > _FETCHED_BYTES
        source: Any = self._source
        if not is_large and not is_near(self._source):
            source = fetch_ranges(self._source, [chunk_range(chunk) for chunk in chunks])
        columns = (self.metadata.schema.column(place) for place in mapping.leaf_columns)
        leaves = [
            Leaf(column, read_chunk_pages(source.read_at, chunk)) for column, chunk in zip(columns, chunks, strict=True)
        ]
        decoding = plan_decoding(leaves, metadata.num_rows, batch_rows, budget_bytes)
        if source is self._source and not is_large and not decoding.dictionaries:
            return self._parquet, decoding
        opened = pq.ParquetFile(
            source if source is self._source else pa.PythonFile(source, mode="r"),
            metadata=self.metadata,
            read_dictionary=list(decoding.dictionaries),
            buffer_size=_BUFFER_BYTES if is_large else 0,
            pre_buffer=False,
            **PARQUET_LIMITS,
        )
        return opened, decoding

    def _check_footer(self) -> RowIndices:
        """Returns where each row group's rows begin, and last the number of all rows."""
        metadata = self.metadata
        if metadata.num_rows != self.file.row_count:
            raise DataCorrupted(
                f"it has {metadata.num_rows} rows, but was committed with {self.file.row_count}", reason="ROW_COUNT"
            )
        path = (metadata.metadata or {}).get(PATH_KEY.encode(), b"").decode(errors="replace")
        if path not in ("", self.file.path):
            raise DataCorrupted(f"it is the file {path[:200]}, put in this one's place", reason="FILE_SWAPPED")
        counts = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        if any(count < 0 for count in counts) or sum(counts) != metadata.num_rows:
            raise DataCorrupted("the rows of its row groups are not as many as the file's")
        if max(counts, default=0) > MAX_GROUP_ROWS:
            raise _too_large(
                self.name, f"a row group of it has {max(counts)} rows, and at most {MAX_GROUP_ROWS} are read"
            )
        return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def check_footer_size(source: pa.NativeFile, size_bytes: int, most_bytes: int) -> None:
    """Raises DataCorrupted if the footer of a file of this size claims more than the most bytes that are read."""
    if size_bytes > most_bytes:
        claimed = int.from_bytes(source.read_at(8, size_bytes - 8)[:4], "little")
        if claimed > most_bytes:
            raise DataCorrupted(f"its footer claims {claimed} bytes, and at most {most_bytes} are read")


@contextlib.contextmanager
def translated(name: str) -> Iterator[None]:
    """Turns errors of pyarrow while the file `name` is read into errors of lakelog that name it."""
    try:
        yield
    except NotFound as error:
        raise DataCorrupted(
            f"Data file {name} is missing, though the table refers to it: it was deleted by hand, or its snapshot has "
            "expired while it was read. Read again; if it stays missing, restore it from a backup.",
            reason=FILE_MISSING,
            metadata={"path": name},
        ) from error
    except DataCorrupted as error:
        if "path" in error.metadata:
            raise
        raise _corrupted(name, error.message, error.reason) from error
    except InvalidArgument as error:
        if error.reason != INVALID_PATH:
            raise
        # Earlier versions committed such paths.
        raise _corrupted(name, "no store takes a file of this path", INVALID_PATH) from error
    except LakelogError:
        raise
    except MemoryError as error:
        raise ResourceExhausted(
            f"There is not enough memory for data file {name}: {str(error)[:200]}. If the file should be small, it is "
            "damaged.",
            metadata={"path": name},
        ) from error
    except OSError as error:
        raise translate_io_error(error, name) or _corrupted(name, str(error)) from error
    except TooLarge as error:
        raise _too_large(name, str(error)) from error
    except (pa.ArrowException, ValueError, KeyError, IndexError, OverflowError) as error:
        raise _corrupted(name, str(error)) from error


def _too_few(name: str, group: int, found: int, wanted: int) -> DataCorrupted:
    return _corrupted(name, f"row group {group} holds {found} rows where the footer says {wanted}")


def _too_large(name: str, what: str) -> DataCorrupted:
    return DataCorrupted(
        f"Data file {name} cannot be read: {what}. Overwrite its partition, with smaller rows or row groups.",
        reason="ROWS_TOO_LARGE",
        metadata={"path": name},
    )


def _corrupted(name: str, what: str, reason: str | None = None) -> DataCorrupted:
    first_line = what.splitlines()[0][:300] if what else "it cannot be read"
    return DataCorrupted(
        f"Data file {name} is damaged: {first_line.rstrip('.')}. Restore it from a backup, or overwrite its partition.",
        reason=reason,
        metadata={"path": name},
    )
