"""Where batches go. Each batch may come again after a crash, with the same rows and the same number.

A table and files still take it only once: the table by the number of the commit, files because a batch is a folder that
appears as a whole. The console and functions get it again, with its number.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sf

import lakelog.spark
from lakelog.errors import InvalidArgument, LakelogError, Unavailable
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.serving.lease import LeaseRenewer
from lakelog.serving.streams.exit_status import CHECKPOINT_MISFIT
from lakelog.spark.batch.write_parameters import QUERY_ID_PROPERTY
from lakelog.spark.executor_files import FOLDER_NOT_SHARED, REMEDY
from lakelog.spark.session.executors import is_on_this_machine
from lakelog.spark.source.stream_identity import read_query_id
from lakelog.storage.objects.durable import synchronise

from .exit_status import FUNCTION_FAILED
from .spec import SinkType, Stream

IDENTITY_FILE: Final = "_stream.json"
"""In a folder of files: the identity of its stream. Spark and others skip names that begin like this."""


_COUNT_BYTES: Final = 4 << 20


class SinkWriter(Protocol):
    """Takes batches, from one thread."""

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Takes a batch, or finds that it was taken before; blocks."""
        ...


def make_sink(stream: Stream, lease: LeaseRenewer) -> SinkWriter:
    """The sink of a stream.

    Raises:
        InvalidArgument: Its function cannot be imported, or its folder cannot be used.
    """
    sink = stream.sink
    match sink.type:
        case SinkType.TABLE:
            return _TableSink(stream, lease)
        case SinkType.PARQUET | SinkType.JSON:
            return _FilesSink(stream, lease)
        case SinkType.PYTHON:
            return _FunctionSink(stream, load_function(stream))
        case SinkType.CONSOLE:
            return _ConsoleSink(stream)


def load_function(stream: Stream) -> Callable[[DataFrame, int], Any]:
    """Imports the function of a sink; modules beside the stream's file can be imported.

    Raises:
        InvalidArgument: There is no such function.
    """
    module_name, _, name = stream.sink.function.partition(":")
    folder = str(stream.file.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        function = getattr(importlib.import_module(module_name), name)
    except Exception as error:
        raise InvalidArgument(
            f"{stream.sink.function} cannot be imported: {error}. Put the module beside the stream's file or on "
            "PYTHONPATH.",
            metadata={"field": "sink.function"},
        ) from error
    if not callable(function):
        raise InvalidArgument(
            f"{stream.sink.function} is no function. Name one that takes a DataFrame and the number of the batch.",
            metadata={"field": "sink.function"},
        )
    found: Callable[[DataFrame, int], Any] = function
    return found


def to_sink_rows(stream: Stream, rows: DataFrame) -> DataFrame:
    """The rows for the sink: with their row kinds in the column that the sink names. Lazy."""
    name = stream.sink.row_kind_column
    if name is None or ROW_KIND_COLUMN not in rows.columns:
        return rows
    return rows.withColumnRenamed(ROW_KIND_COLUMN, name)


@dataclass(frozen=True)
class _TableSink:
    stream: Stream
    lease: LeaseRenewer

    def write(self, batch: DataFrame, batch_id: int) -> None:
        stream = self.stream
        lakelog.spark.write(
            to_sink_rows(stream, batch),
            stream.sink.table,
            fill_missing=stream.sink.fill_missing,
            writer=stream.writer,
            identifier=batch_id,
            previous_identifier=batch_id - 1,
            properties={QUERY_ID_PROPERTY: read_query_id(str(stream.checkpoint)), "stream.name": stream.name},
            fence=self.lease.fence,
        )


@dataclass(frozen=True)
class _FilesSink:
    """A folder for each batch: it is written under another name, and renamed at the end."""

    stream: Stream
    lease: LeaseRenewer

    def write(self, batch: DataFrame, batch_id: int) -> None:
        folder = self.stream.sink.path
        assert folder is not None, "files have a path"
        try:
            self._check_identity(folder)
            final = folder / f"batch={batch_id:012d}"
            if final.is_dir():
                # Taken before; the crash came before Spark recorded it.
                return
            self._clear(folder)
            draft = folder / f".writing-{self.lease.epoch}-{batch_id}-{uuid.uuid4().hex}"
            rows = to_sink_rows(self.stream, batch)
            counted = None if is_on_this_machine(rows.sparkSession.sparkContext.master) else Observation()
            try:
                watched = rows if counted is None else rows.observe(counted, sf.count(sf.lit(1)).alias("rows"))
                writer = watched.write
                if self.stream.sink.type is SinkType.PARQUET:
                    writer.parquet(draft.as_uri())
                else:
                    # Readers could not distinguish absent keys from NULL.
                    writer.option("ignoreNullFields", "false").json(draft.as_uri())
                if counted is not None:
                    _check_rows(self.stream, rows, counted, draft)
                # An instance that was replaced meanwhile must not show a batch beside that of its successor.
                self.lease.check()
                _make_durable(draft)
                self._show(draft, final)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
        except OSError as error:
            raise Unavailable(
                f"The folder {folder} of stream '{self.stream.name}' cannot be written to: {error}. Check its "
                "permissions and the room on its disk."
            ) from error

    def _clear(self, folder: Path) -> None:
        """Deletes what killed tries and replaced instances have left.

        SUBTLE: only of earlier epochs, and our own, of which one batch is written at a time. An instance that was
            replaced and does not know it yet must not touch what its successor writes.
        """
        for left in folder.glob(".writing-*"):
            epoch = left.name.split("-")[1]
            if not epoch.isdigit() or int(epoch) <= self.lease.epoch:
                shutil.rmtree(left, ignore_errors=True)

    def _show(self, draft: Path, final: Path) -> None:
        try:
            # SUBTLE: only onto an empty place; a folder with files in it is never replaced.
            os.rename(draft, final)
        except OSError:
            if not final.is_dir():
                raise
        synchronise(final.parent)

    def _check_identity(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        place = folder / IDENTITY_FILE
        own = {"stream": self.stream.name, "query": read_query_id(str(self.stream.checkpoint))}
        try:
            known = json.loads(place.read_text(encoding="utf-8"))
        except FileNotFoundError:
            draft = folder / f".{IDENTITY_FILE}.{uuid.uuid4().hex}"
            draft.write_text(json.dumps(own), encoding="utf-8")
            draft.replace(place)
            return
        except ValueError:
            known = None
        if known != own:
            raise InvalidArgument(
                f"The folder {folder} holds the batches of another stream or checkpoint ({place}), so that those of "
                f"stream '{self.stream.name}' would be taken for them. Give it a folder of its own, or put its "
                "checkpoint back.",
                reason=CHECKPOINT_MISFIT,
            )


def _check_rows(stream: Stream, rows: DataFrame, counted: Observation, draft: Path) -> None:
    """Checks that what executors wrote is in the folder as this machine sees it.

    Raises:
        InvalidArgument: Executors see another folder at its path, so that the batch would lack rows.
    """
    found = count_rows(draft)
    # SUBTLE: Spark may count the rows of a task twice that it has run twice, so only a second count is certain.
    if found != counted.get["rows"] and found != (expected := rows.count()):
        raise InvalidArgument(
            f"Executors wrote {expected} rows of stream '{stream.name}' to {stream.sink.path}, of which {found} are "
            f"there on this machine: they see other folders at this path. {REMEDY} A sink of the type table needs no "
            "folder.",
            reason=FOLDER_NOT_SHARED,
            metadata={"path": str(stream.sink.path)},
        )


def count_rows(folder: Path) -> int:
    """The rows of Spark's files in a folder: of Parquet, or one on each line."""
    rows = 0
    for file in folder.glob("part-*"):
        if file.suffix == ".parquet":
            rows += pq.read_metadata(file).num_rows
            continue
        with file.open("rb") as stream:
            while chunk := stream.read(_COUNT_BYTES):
                rows += chunk.count(b"\n")
    return rows


def _make_durable(folder: Path) -> None:
    """Syncs a folder's files to the disk before a checkpoint says that they are there."""
    for path in folder.iterdir():
        synchronise(path)
    synchronise(folder)


@dataclass(frozen=True)
class _ConsoleSink:
    stream: Stream

    def write(self, batch: DataFrame, batch_id: int) -> None:
        count = self.stream.sink.shown_rows
        rows = to_sink_rows(self.stream, batch).limit(count + 1).toArrow()
        sys.stdout.write(f"-- stream {self.stream.name}, batch {batch_id}\n")
        for row in rows.slice(0, count).to_pylist():
            sys.stdout.write(json.dumps(row, default=str, ensure_ascii=False) + "\n")
        if rows.num_rows > count:
            sys.stdout.write(f"-- more rows than {count} (sink.rows)\n")
        sys.stdout.flush()


@dataclass(frozen=True)
class _FunctionSink:
    stream: Stream
    function: Callable[[DataFrame, int], Any]

    def write(self, batch: DataFrame, batch_id: int) -> None:
        try:
            self.function(to_sink_rows(self.stream, batch), batch_id)
        except LakelogError:
            raise
        except Exception as error:
            raise InvalidArgument(
                f"The function {self.stream.sink.function} of stream '{self.stream.name}' failed at batch {batch_id}: "
                f"{type(error).__name__}: {error}. The batch comes again when the stream is started again.",
                reason=FUNCTION_FAILED,
                metadata={"batch_id": str(batch_id)},
            ) from error
