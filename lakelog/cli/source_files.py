"""Reading the files that `lakelog insert` takes, a batch at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.cli.csv_file import open_csv
from lakelog.cli.json_file import NOTHING_LEFT_OUT, MayLeaveOut, open_json
from lakelog.errors import InvalidArgument, LakelogError, NotFound
from lakelog.storage.local import translate_os_error

FORMATS: Final = ("csv", "parquet", "json", "arrow")
STDIN: Final = "-"

_NAME_OF_STDIN: Final = "The standard input"

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
_BATCH_ROWS: Final = 64 * 1024


def detect_format(path: str) -> str:
    """The format that a path's ending tells. Pure.

    Raises:
        InvalidArgument: It tells none.
    """
    found = _SUFFIXES.get(Path(path).suffix.lower())
    if found is None:
        what = "The standard input" if path == STDIN else f"The name of {path}"
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
    with open_batches(path, file_format, pa.schema([])) as reader:
        return reader.schema.remove_metadata()


@contextmanager
def open_batches(
    path: str, file_format: str, schema: pa.Schema, may_leave_out: MayLeaveOut = NOTHING_LEFT_OUT
) -> Iterator[pa.RecordBatchReader]:
    """Opens a file and reads it while its batches are asked for, in bounded memory.

    Args:
        path: Of the file; `-` for the standard input (not for Parquet, which is read from its end).
        file_format: One of `FORMATS`; JSON means one object a line, in the forms of `lakelog.cli.json_rows`.
        schema: The types that texts are read as, by column; files with types of their own keep those.
        may_leave_out: Which columns a line of JSON need not name.

    Raises:
        NotFound: There is no such file.
        InvalidArgument: The file is not what its format says, also while its batches are read; or Parquet shall come
            from the standard input.
    """
    if path == STDIN and file_format == "parquet":
        raise InvalidArgument("Parquet is read from its end and cannot come from the standard input; give a file.")
    name = _NAME_OF_STDIN if path == STDIN else path
    told: list[LakelogError] = []
    try:
        with _open_source(path, file_format) as source:
            yield _remembering(_open_reader(source, name, file_format, schema, may_leave_out), told)
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {path}.", reason="FILE_NOT_FOUND") from error
    except IsADirectoryError as error:
        raise InvalidArgument(f"{path} is a folder; give one file.") from error
    except (pa.ArrowException, OSError) as error:
        if told:
            raise told[0] from error
        if isinstance(error, OSError) and error.errno is not None:
            raise translate_os_error(error, name) from error
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise InvalidArgument(f"{name} cannot be read as {file_format} with the table's columns: {first}") from error


def _remembering(reader: pa.RecordBatchReader, told: list[LakelogError]) -> pa.RecordBatchReader:
    """The reader, whose errors are kept: on their way through Arrow's C interface they become texts."""

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from reader
        except LakelogError as error:
            told.append(error)
            raise

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def _open_source(path: str, file_format: str) -> Any:
    if path == STDIN:
        return pa.PythonFile(sys.stdin.buffer, mode="r")
    if file_format in ("parquet", "arrow"):
        return pa.OSFile(path)
    return pa.input_stream(path)


def _open_reader(
    source: Any, name: str, file_format: str, schema: pa.Schema, may_leave_out: MayLeaveOut
) -> pa.RecordBatchReader:
    if file_format == "parquet":
        file = pq.ParquetFile(source)
        return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(_BATCH_ROWS))
    if file_format == "arrow":
        return _open_arrow(source)
    return open_csv(source, name, schema) if file_format == "csv" else open_json(source, name, schema, may_leave_out)


def _open_arrow(source: Any) -> pa.RecordBatchReader:
    """Arrow's file format where the source can be read at any place and begins as one, else its stream format."""
    if source.seekable() and source.size() >= 6 and source.read(6) == b"ARROW1":
        source.seek(0)
        file = pa.ipc.open_file(source)
        return pa.RecordBatchReader.from_batches(
            file.schema, (file.get_batch(i) for i in range(file.num_record_batches))
        )
    if source.seekable():
        source.seek(0)
    return pa.ipc.open_stream(source)
