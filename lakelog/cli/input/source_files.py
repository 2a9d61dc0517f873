"""Reading the files that `lakelog insert` takes, a batch at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.cli.input.left_out import NOTHING_LEFT_OUT, MayLeaveOut
from lakelog.cli.input.text_file import open_csv, open_json
from lakelog.errors import InvalidArgument, NotFound
from lakelog.storage.objects.local import translate_os_error

FORMATS: Final = ("csv", "parquet", "json", "arrow")
STDIN: Final = "-"

NAME_OF_STDIN: Final = "The standard input"

_SUFFIXES: Final = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_COMPRESSIONS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_BATCH_ROWS: Final = 64 * 1024


class RowPlace:
    """Where in a file the batch that came last stands."""

    def __init__(self) -> None:
        self.group = ""
        """The row group or record batch, from 1; empty where the format has none."""
        self.first = self.end = 0
        """Its rows in the file, from 0."""

    def count(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hands batches on, and counts their rows."""
        for batch in batches:
            self.first, self.end = self.end, self.end + batch.num_rows
            yield batch

    def show(self, row: int | None = None) -> str:
        """Group and rows, or one row of the batch, for messages; rows from 1."""
        if row is not None:
            return f"{self.group}row {self.first + row + 1:,}"
        if self.end == self.first + 1:
            return f"{self.group}row {self.end:,}"
        return f"{self.group}rows {self.first + 1:,} to {self.end:,}"


@dataclass(frozen=True)
class OpenFile:
    """A file that is being read.

    Args:
        schema: The columns of its rows.
        batches: Its rows in order, at least one batch; reads in bounded memory while they are asked for.
        bytes_read: How many bytes of the file are read by now, about; 0 where that is not known.
        place: Where in the file the batch that came last stands.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    bytes_read: Callable[[], int]
    place: RowPlace


def detect_format(path: str) -> str:
    """The format that a path's ending shows. Pure.

    Raises:
        InvalidArgument: It shows none.
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    is_compressed = suffixes[-1:] and suffixes[-1] in _COMPRESSIONS
    found = _SUFFIXES.get(suffixes[-2 if is_compressed else -1]) if len(suffixes) > bool(is_compressed) else None
    if is_compressed and found in ("parquet", "arrow"):
        raise InvalidArgument(
            f"{path}: only csv and json are read compressed. Unpack it: these compress by themselves."
        )
    if found is None:
        what = NAME_OF_STDIN if path == STDIN else f"The name of {path}"
        raise InvalidArgument(f"{what} does not tell its format; add --format {'|'.join(FORMATS)}.")
    return found


def read_file_schema(path: str) -> pa.Schema:
    """The columns of a Parquet or Arrow file.

    Raises:
        InvalidArgument: The file has another format, which has no types of its own, or it cannot be read.
    """
    file_format = detect_format(path)
    if file_format not in ("parquet", "arrow"):
        raise InvalidArgument(f"{path} is a {file_format} file, which has no column types; give them by --schema.")
    with open_batches(path, file_format, pa.schema([])) as file:
        return file.schema.remove_metadata()


@contextmanager
def open_batches(
    path: str, file_format: str, schema: pa.Schema, may_leave_out: MayLeaveOut = NOTHING_LEFT_OUT
) -> Iterator[OpenFile]:
    """Opens a file and reads it while its batches are asked for, in bounded memory.

    Args:
        path: Of the file; `-` for the standard input (not for Parquet, which is read from its end).
        file_format: One of `FORMATS`; JSON means one object a line, in the forms of `lakelog.cli.output.json_rows`. CSV
            and JSON may be compressed, as the ending of the name shows.
        schema: The types that texts are read as, by column; files with types of their own keep those.
        may_leave_out: Which columns a line of JSON need not name.

    Raises:
        NotFound: There is no such file.
        InvalidArgument: The file is not what its format says, also while its batches are read; or Parquet shall come
            from the standard input.
    """
    if path == STDIN and file_format == "parquet":
        raise InvalidArgument("Parquet is read from its end and cannot come from the standard input; give a file.")
    name = NAME_OF_STDIN if path == STDIN else path
    with _translated(path, name, file_format):
        raw = pa.PythonFile(sys.stdin.buffer, mode="r") if path == STDIN else pa.OSFile(path)
    with raw:
        with _translated(path, name, file_format):
            file = _open(raw, path, name, file_format, schema, may_leave_out)
        yield OpenFile(
            file.schema, _translating(file.schema, file.batches, path, name, file_format), file.bytes_read, file.place
        )


@contextmanager
def _translated(path: str, name: str, file_format: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {path}.", reason="FILE_NOT_FOUND") from error
    except IsADirectoryError as error:
        raise InvalidArgument(f"{path} is a folder; give one file.") from error
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise translate_os_error(error, name) from error
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise InvalidArgument(f"{name} cannot be read as {file_format} with the table's columns: {first}") from error


def _translating(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], path: str, name: str, file_format: str
) -> Iterator[pa.RecordBatch]:
    """The batches, with errors as lakelog's; one without rows where there is none."""
    with _translated(path, name, file_format):
        first = next(batches, None)
    if first is None:
        yield pa.RecordBatch.from_pylist([], schema=schema)
    while first is not None:
        yield first
        with _translated(path, name, file_format):
            first = next(batches, None)


def _open(raw: Any, path: str, name: str, file_format: str, schema: pa.Schema, may_leave_out: MayLeaveOut) -> OpenFile:
    if file_format == "parquet":
        return _open_parquet(raw)
    if file_format == "arrow":
        return _open_arrow(raw)
    codec = _COMPRESSIONS.get(Path(path).suffix.lower())
    source = raw if codec is None else pa.CompressedInputStream(raw, codec)
    reader = open_csv(source, name, schema) if file_format == "csv" else open_json(source, name, schema, may_leave_out)
    counted = RowPlace()
    return OpenFile(
        reader.schema,
        counted.count(reader),
        lambda: 0 if path == STDIN or raw.closed else int(raw.tell()),
        counted,
    )


def _open_parquet(raw: Any) -> OpenFile:
    file = pq.ParquetFile(raw)
    place, size = RowPlace(), raw.size()

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(file.num_row_groups):
            place.group = f"row group {number + 1}, "
            yield from file.iter_batches(_BATCH_ROWS, row_groups=[number])

    return OpenFile(
        file.schema_arrow,
        place.count(batches()),
        lambda: size * place.end // max(file.metadata.num_rows, 1),
        place,
    )


def _open_arrow(raw: Any) -> OpenFile:
    """Arrow's file format where the source can be read at any place and begins as one, else its stream format."""
    place = RowPlace()
    if raw.seekable() and raw.size() >= 6 and raw.read(6) == b"ARROW1":
        raw.seek(0)
        file = pa.ipc.open_file(raw)
        size, read = raw.size(), [0]

        def batches() -> Iterator[pa.RecordBatch]:
            for number in range(file.num_record_batches):
                place.group = f"record batch {number + 1}, "
                read[0] = number + 1
                yield file.get_batch(number)

        return OpenFile(
            file.schema, place.count(batches()), lambda: size * read[0] // max(file.num_record_batches, 1), place
        )
    if raw.seekable():
        raw.seek(0)
    stream = pa.ipc.open_stream(raw)
    return OpenFile(
        stream.schema,
        place.count(stream),
        lambda: int(raw.tell()) if not raw.closed and raw.seekable() else 0,
        place,
    )
