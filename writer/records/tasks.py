"""Reading the files of a batch; all of this runs on executors, for few rows in the driver program."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from lakelog.errors import DataCorrupted, InvalidArgument, LakelogError
from lakelog.records.bad_records import BadRecord, FileRefused, Report
from lakelog.records.blocks import ByteStream, Transcoder
from lakelog.records.csv_records import read_csv
from lakelog.records.json_records import read_json
from lakelog.records.source_rows import SourceRows
from lakelog.records.text_options import TextOptions
from lakelog.spark.executor_files import not_shared
from lakelog.spark.task_errors import errors_to_driver

from ..files.tasks import TakenFile
from ..pipeline.spec import Evolution, Format
from ..source import ReadTasks
from .coercion import Coercion
from .dead_letters import LetterFile, letter_name
from .parquet_records import read_parquet
from .sink import BadRecordSink

BAD_RECORD: Final = "BAD_RECORD"
"""The reason of the error that stops a pipeline whose `bad_records` is `stop`."""

FILE_CHANGED: Final = "FILE_CHANGED"
"""The reason of the error when a file is not what it was when its batch was planned."""

_COMPRESSED: Final = frozenset({".gz", ".bz2", ".zst", ".lz4"})


@dataclass(frozen=True)
class ReadTask:
    """How the files of a batch are read. Picklable.

    Args:
        pipeline: The pipeline's name.
        batch_id: The batch.
        folder: The source's folder.
        format: What the files hold.
        coercion: How rows become the table's.
        dead_letters: The folder for them; None: the pipeline stops at the first.
        letters_mark: The file that marks this folder as the driver program's; None: they are on one machine.
        evolution: What becomes of columns that the table does not have.
    """

    pipeline: str
    batch_id: int
    folder: Path
    format: Format
    coercion: Coercion
    dead_letters: Path | None
    letters_mark: str | None = None
    evolution: Evolution | None = None


def file_reader(task: ReadTask, groups: Sequence[Sequence[TakenFile]]) -> ReadTasks:
    """Returns the function for `mapInArrow`: from numbers of groups to the rows of the table in their files."""

    def read(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        with errors_to_driver():
            for number in read_numbers(batches):
                for file in groups[number]:
                    yield from read_file(task, file)

    return read


def read_numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """The numbers of tasks in the only column of some batches: one for each task, so few."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def read_file(task: ReadTask, file: TakenFile) -> Iterator[pa.RecordBatch]:
    """Reads one file; its bad records become dead letters, or the first of them an error.

    Yields:
        Rows of `task.coercion.output`, in the file's order.

    Raises:
        InvalidArgument: There is a bad record and the pipeline stops at those (reason `BAD_RECORD`).
        InvalidArgument: This executor does not see the source's or the dead letters' folder (`FOLDER_NOT_SHARED`).
        DataCorrupted: The file is not what it was when the batch was planned (reason `FILE_CHANGED`).
    """
    if task.batch_id != file.batch_id:
        raise DataCorrupted(
            f"Batch {task.batch_id} was given a file of batch {file.batch_id}: the checkpoint of pipeline "
            f"'{task.pipeline}' has been changed. Restore it."
        )
    sink = BadRecordSink(_open_letters(task, file), lambda record: _stop(task, file, record))
    try:
        path = str(task.folder / file.path)
        _check_unchanged(task.folder, file)
        try:
            for rows in _read_rows(task, path, sink.report):
                fitted = task.coercion.coerce(rows, sink.report)
                sink.flush()
                if fitted.num_rows:
                    yield fitted
        except FileRefused as error:
            sink.report(BadRecord(None, None, str(error), b""))
        # SUBTLE: before the letters appear, since a file that changed meanwhile has been read half old, half new.
        _check_unchanged(task.folder, file)
        sink.flush()
        sink.finish()
    finally:
        sink.abort()


def _open_letters(task: ReadTask, file: TakenFile) -> LetterFile | None:
    if task.dead_letters is None:
        return None
    facts: dict[str, Any] = {"pipeline": task.pipeline, "batch_id": task.batch_id, "file": file.path}
    name = letter_name(task.pipeline, task.batch_id, file.number)
    return LetterFile(task.dead_letters, name, facts, mark=task.letters_mark)


def _read_rows(task: ReadTask, path: str, report: Report) -> Iterator[SourceRows]:
    try:
        if task.format is Format.PARQUET:
            with pa.OSFile(path, "rb") as file:
                yield from _checked(task.coercion, read_parquet(file), "the file")
            return
        with open_text(path, task.coercion.text) as stream:
            yield from _read_text(task, stream, report)
    except UnicodeDecodeError as error:
        raise FileRefused(f"it is not valid UTF-8 text ({error.reason}); say in source.options.encoding") from error


@contextlib.contextmanager
def open_text(path: str, options: TextOptions) -> Iterator[ByteStream]:
    """A file of text as UTF-8, unpacked."""
    with pa.OSFile(path, "rb") as file:
        stream: Any = file
        if os.path.splitext(path)[1] in _COMPRESSED:
            stream = pa.CompressedInputStream(file, pa.Codec.detect(path).name)
        readable = _Readable(stream)
        is_utf8 = options.encoding.lower().replace("_", "-") in ("utf-8", "utf8")
        yield readable if is_utf8 else Transcoder(readable, options.encoding)


def _read_text(task: ReadTask, stream: ByteStream, report: Report) -> Iterator[SourceRows]:
    coercion, options = task.coercion, task.coercion.text
    if task.format is Format.CSV:
        yield from _checked(coercion, read_csv(stream, options, report), "its header")
    else:
        yield from read_json(stream, options, coercion.json_types(), coercion.ignore_unknown, report)


def _checked(coercion: Coercion, parts: Iterator[SourceRows], where: str) -> Iterator[SourceRows]:
    for number, part in enumerate(parts):
        if number == 0:
            coercion.check_columns(list(part.columns), where)
        yield part


class _Readable:
    """Reads a stream of Arrow's; what it finds wrong makes the file bad."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        try:
            data: bytes = self._stream.read(size)
        except (pa.ArrowException, OSError) as error:
            what = (str(error) or type(error).__name__).splitlines()[0]
            raise FileRefused(f"it cannot be read: {what[:200]}") from error
        return data


def _check_unchanged(folder: Path, file: TakenFile) -> None:
    path = str(folder / file.path)
    try:
        status = os.stat(path)
        now = (status.st_size, status.st_mtime_ns // 1000)
        what = f"it has {now[0]} bytes instead of {file.size_bytes}, or was written to again"
    except OSError as error:
        if not folder.is_dir():
            raise not_shared("the source's folder", folder) from error
        now, what = (-1, -1), f"it cannot be looked at on {socket.gethostname()}: {error.strerror}"
    if now != (file.size_bytes, file.modified_us):
        raise DataCorrupted(
            f"File {path} changed after it was taken into batch {file.batch_id}: {what}. Nothing of the batch was "
            "committed. Put complete files into the source's folder in one step (write elsewhere, then rename); when "
            "this one is as it shall be, start the pipeline again, and it is read as it is then.",
            reason=FILE_CHANGED,
            metadata={"file": file.path},
        )


def _stop(task: ReadTask, file: TakenFile, record: BadRecord) -> LakelogError:
    unit = "row" if task.format is Format.PARQUET else "line"
    place = "" if record.line is None else f", {unit} {record.line}"
    raw = record.raw.decode("utf-8", "backslashreplace")
    shown = f" The record is: {raw[:200]}{'...' if len(raw) > 200 else ''}" if raw else ""
    shown += task.coercion.hint(record.reason)
    return InvalidArgument(
        f"File {task.folder / file.path}{place}: {record.reason}.{shown} The pipeline stops at bad records "
        "(bad_records: stop), and nothing of this batch was committed. Repair the file and start again, or set "
        "bad_records: dead-letter to put such records aside.",
        reason=BAD_RECORD,
        metadata={"file": file.path, "line": "" if record.line is None else str(record.line)},
    )
