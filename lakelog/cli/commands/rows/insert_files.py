"""Files into a table: all of them in one commit, or a job that commits each by itself and can go on where it ended.

A job keeps no notes of its own. Each file is committed under a writer named after the job and the file's absolute path,
so the commit that brings a file's rows is the one that says that the file is in: a crash leaves both or none, and a
repetition, also one at the same time, changes nothing (semantics 7.1). What the metastore remembers with it, the
file's size and time, tells a file that has changed since.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from lakelog.cli.commands.rows.insert_progress import InsertProgress
from lakelog.cli.input.left_out import MayLeaveOut
from lakelog.cli.input.source_files import NAME_OF_STDIN, STDIN, RowPlace, open_batches
from lakelog.cli.input.source_paths import SourceFile
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import Effect, InvalidArgument, LakelogError
from lakelog.format.tables.table import TableInfo
from lakelog.results import WriteResult

_LOOKS_AT_ONCE: Final = 8
_PROPERTY: Final = "insert."


class Write(Protocol):
    """A write of the SDK, `append` for instance."""

    def __call__(self, data: Iterator[pa.RecordBatch], **commit: Any) -> WriteResult:
        """Writes rows in one commit."""
        ...


@dataclass
class Inserted:
    """What became of an insert.

    Args:
        rows: Those that it wrote.
        files: Those that it committed.
        files_before: Those that had been committed before.
        snapshot_id: The newest snapshot that it made; None: none.
        already_applied: Whether the only commit had been applied before.
    """

    rows: int = 0
    files: int = 0
    files_before: int = 0
    snapshot_id: int | None = None
    already_applied: bool = False


@dataclass
class FileInsert:
    """Writes files to a table.

    Args:
        metastore: What the table knows of jobs.
        info: The table.
        mode: What is done with rows, for messages.
        write: What does it.
        schema: As what texts are read.
        may_leave_out: Which columns a line of JSON need not name.
        progress: Shows how far it is.
        inserted: Kept up to date while files are written.
    """

    metastore: Metastore
    info: TableInfo
    mode: str
    write: Write
    schema: pa.Schema
    may_leave_out: MayLeaveOut
    progress: InsertProgress
    inserted: Inserted = field(default_factory=Inserted)
    _at: tuple[SourceFile, RowPlace] | None = None
    """The file and the rows that are being written right now; None while they are read."""

    def insert_at_once(self, sources: Sequence[SourceFile], **commit: Any) -> None:
        """Writes all files in one commit.

        Args:
            sources: The files.
            commit: As of the SDK's writes.

        Raises:
            LakelogError: Nothing was written.
        """

        def rows() -> Iterator[pa.RecordBatch]:
            for source in sources:
                yield from self._read(source)

        try:
            result = self._write(rows(), commit)
        except LakelogError as error:
            if len(sources) == 1 or error.effect is not Effect.NONE:
                raise
            raise _add(error, f"Nothing was written: the {len(sources):,} files are one commit.") from error
        self.inserted.files = len(sources)
        self.inserted.snapshot_id, self.inserted.already_applied = result.snapshot_id, result.already_applied

    def insert_each(self, sources: Sequence[SourceFile], job: str, *, is_new: bool) -> None:
        """Writes each file in a commit of its own, those that the job has not written yet.

        Args:
            sources: The files.
            job: The name by which the job is known.
            is_new: Whether nothing can have been done under this name.

        Raises:
            InvalidArgument: A file has changed since the job wrote it, and nothing more was written. Or a file cannot
                be read; those before it are in the table.
            LakelogError: Whatever a write raises, with what became of the files.
        """
        before = frozenset() if is_new else self._find_done(sources, job)
        for place, source in enumerate(sources):
            if source.place in before:
                self.inserted.files_before += 1
                self.progress.end_file(source.size_bytes)
                continue
            try:
                self._insert_one(source, job)
            except LakelogError as error:
                raise self._with_fate(error, job, len(sources), len(sources) - place - 1) from error

    def _insert_one(self, source: SourceFile, job: str) -> None:
        rows_before = self.inserted.rows
        shown = os.fsencode(source.place).decode("utf-8", "replace")
        said = {"job": job, "path": shown, "mode": self.mode, **source.state}
        properties = {f"{_PROPERTY}{key}": text for key, text in said.items()}
        commit = {"writer": _writer_of(job, source), "identifier": 0, "properties": properties}
        result = self._write(self._read(source), commit)
        if result.already_applied:
            # Another run of the job was faster.
            self._check_unchanged(source, job)
            self.inserted.rows = rows_before
            self.inserted.files_before += 1
            return
        self.inserted.files += 1
        self.inserted.snapshot_id = result.snapshot_id or self.inserted.snapshot_id

    def _find_done(self, sources: Sequence[SourceFile], job: str) -> frozenset[str]:
        """The places of the files that the job has written."""
        with ThreadPoolExecutor(_LOOKS_AT_ONCE) as threads:
            is_done = threads.map(lambda source: self._check_unchanged(source, job), sources)
            return frozenset(source.place for source, done in zip(sources, is_done, strict=True) if done)

    def _check_unchanged(self, source: SourceFile, job: str) -> bool:
        """Whether the job has written a file; raises InvalidArgument where that was another state of it."""
        progress = self.metastore.get_writer_progress(_writer_of(job, source), self.info.table_uuid)
        if progress.last_identifier is None:
            return False
        mode = progress.properties.get(f"{_PROPERTY}mode", "")
        if mode != self.mode:
            raise InvalidArgument(
                f"Job {job} took {source.path} to {self.info.name} by --mode {mode}, and now the mode is {self.mode}: "
                "the file would be passed over. Use another --job.",
                metadata={"field": "job", "path": source.path},
            )
        then = {key: progress.properties.get(f"{_PROPERTY}{key}", "") for key in source.state}
        if then != source.state:
            raise InvalidArgument(
                f"{source.path} has changed since job {job} wrote it to {self.info.name}: it had {then['size']} bytes, "
                f"now it has {source.size_bytes}, or was written anew. Its old rows are in the table. To write it once "
                "more use another --job; to go on with the others leave it out.",
                reason="FILE_CHANGED",
                metadata={"path": source.path, "job": job},
            )
        return True

    def _write(self, rows: Iterator[pa.RecordBatch], commit: Mapping[str, Any]) -> WriteResult:
        """Writes rows; errors say which rows of which file do not fit, in the words of the command."""
        self._at = None
        try:
            return self.write(rows, **commit)
        except InvalidArgument as error:
            message = error.message.replace("set fill_missing for NULL", "add --fill-missing for NULL")
            if self._at is not None:
                source, place = self._at
                row = error.metadata.get("row")
                where = f", {place.show(None if row is None else int(row))}"
                # What is counted from the batch on is a row of the file here.
                message = message if row is None else message.replace(f" in row {row}", "", 1)
                name = NAME_OF_STDIN if source.path == STDIN else source.path
                message = f"{name}{'' if error.reason == 'SCHEMA_MISMATCH' else where}: {message}"
            raise InvalidArgument(message, reason=error.reason, metadata=error.metadata) from error

    def _read(self, source: SourceFile) -> Iterator[pa.RecordBatch]:
        with open_batches(source.path, source.file_format, self.schema, self.may_leave_out) as file:
            for batch in file.batches:
                self._at = source, file.place
                yield batch
                self._at = None
                self.inserted.rows += batch.num_rows
                self.progress.add_rows(batch.num_rows, file.bytes_read())
        self._check_still(source)
        self.progress.end_file(source.size_bytes)

    def _check_still(self, source: SourceFile) -> None:
        """Whether a file is still what it was when it was found; half of what somebody writes is no file."""
        if source.path == STDIN:
            return
        status = Path(source.path).stat()
        if (status.st_size, status.st_mtime_ns) != (source.size_bytes, source.modified_ns):
            raise InvalidArgument(
                f"{source.path} has changed while it was read, so its rows were not written. Insert it when it is "
                "complete.",
                reason="FILE_CHANGED",
                metadata={"path": source.path},
            )

    def _with_fate(self, error: LakelogError, job: str, count: int, left: int) -> LakelogError:
        done = self.inserted.files + self.inserted.files_before
        this = "whether this one is, the next run finds out" if error.effect is Effect.UNKNOWN else "this one is not"
        behind = f", nor {'is the one' if left == 1 else f'are the {left:,}'} behind it" if left else ""
        return _add(
            error,
            f"{done:,} of {count:,} files are in {self.info.name}; {this}{behind}. Go on with --job {job}: files that "
            "are in are not written again.",
            job=job,
        )


def _add(error: LakelogError, sentence: str, **metadata: str) -> LakelogError:
    """The same error that says more."""
    return type(error)(f"{error.message}\n{sentence}", reason=error.reason, metadata=error.metadata | metadata)


def _writer_of(job: str, source: SourceFile) -> str:
    """By which a file's commit is known; short, whatever its path is."""
    return f"insert/{job}/{hashlib.sha256(os.fsencode(source.place)).hexdigest()[:32]}"
