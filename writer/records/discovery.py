"""The columns that the files of a batch have, found before it is read. Runs on executors, or in the driver program."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.log.codecs.byte_columns import take_spans
from lakelog.records.bad_records import BadRecord, FileRefused
from lakelog.records.blocks import Block, ByteStream, read_blocks
from lakelog.records.csv_records import open_csv
from lakelog.records.inferred_types import infer_json, infer_texts, join_schemas
from lakelog.spark.task_errors import errors_to_driver

from ..files.tasks import TakenFile
from ..pipeline.spec import Evolution, Format
from ..source import ReadTasks
from .tasks import ReadTask, open_text, read_numbers

SCHEMA_COLUMN: Final = "schema"
"""The only column of what tasks return: Arrow schemas in IPC format."""


def file_discoverer(task: ReadTask, groups: Sequence[Sequence[TakenFile]]) -> ReadTasks:
    """Returns the function for `mapInArrow`: from numbers of groups to the columns that their files have."""
    return discoverer(lambda number: (_find_columns(task, file) for file in groups[number]))


def discoverer(find: Callable[[int], Iterable[pa.Schema]]) -> ReadTasks:
    """The function for `mapInArrow` that finds the columns of the input of some tasks."""

    def read(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        with errors_to_driver():
            for number in read_numbers(batches):
                found = join_schemas(find(number))
                yield pa.record_batch({SCHEMA_COLUMN: pa.array([found.serialize().to_pybytes()], pa.binary())})

    return read


def _find_columns(task: ReadTask, file: TakenFile) -> pa.Schema:
    """The columns of a file; none of one that cannot be read, which reading it reports."""
    path = str(task.folder / file.path)
    try:
        if task.format is Format.PARQUET:
            return pq.read_schema(path)
        with open_text(path, task.coercion.text) as stream:
            if task.format is Format.CSV:
                return _find_in_csv(task, stream)
            blocks = read_blocks(stream, task.coercion.text, quote=None)
            if task.evolution is Evolution.IGNORE:
                # What it leaves out is reported only, and the first records say enough for that.
                blocks = itertools.islice(blocks, 1)
            return join_schemas(infer_json(_to_texts(block)) for block in blocks)
    except (FileRefused, UnicodeDecodeError, pa.ArrowException, OSError):
        return pa.schema([])


def _find_in_csv(task: ReadTask, stream: ByteStream) -> pa.Schema:
    """Names are in the header; only where one is new are values looked at."""
    names, parts = open_csv(stream, task.coercion.text, _pass_over)
    new = [name for name in names if name not in task.coercion.source_names]
    if not new:
        return pa.schema([])
    if task.evolution is Evolution.IGNORE:
        return pa.schema([(name, pa.null()) for name in new])
    found = (pa.schema([(name, infer_texts(part.columns[name], task.coercion.text)) for name in new]) for part in parts)
    return join_schemas([pa.schema([(name, pa.null()) for name in new]), *found])


def _to_texts(block: Block) -> pa.Array:
    return take_spans(np.frombuffer(block.data, np.uint8), block.starts, block.ends - block.starts)


def _pass_over(record: BadRecord) -> None:
    """Reading the batch reports it."""
