"""The folder as a streaming source of Spark: an offset is the number of batches planned, a row is a file to read.

Spark's own file source is not sufficient. It orders files only by time, skips files that are older than its newest by
more than a week, reads the content of a file when its batch runs without comparing it with the listing, and leaves out
files that are gone. So this module plans batches and their order; offsets and recovery are Spark's.

This code runs in processes that Spark starts on the driver's machine (planning) and on executors (`read`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from lakelog.errors import DataCorrupted
from lakelog.spark.task_errors import errors_to_driver
from lakelog.without_pandas import leave_pandas_out

from ..drained import DrainedPause
from ..pipeline.spec import FileSource
from .batch_log import BatchFiles, BatchLog
from .listing import FoundFile, file_state, find_changed, list_files
from .tasks import TAKEN_DDL, TakenFile, emit_files, split_files

SOURCE_NAME: Final = "lakelog-files"


def register_source(spark: SparkSession) -> None:
    """Registers the source with a session."""
    spark.dataSource.register(FilesDataSource)


def source_options(source: FileSource, log_folder: Path, splits: int) -> dict[str, str]:
    """The options that Spark passes to the source: pickled description, log folder, tasks for each batch."""
    return {"source": pickle.dumps(source).hex(), "log_folder": str(log_folder), "splits": str(splits)}


class FilesDataSource(DataSource):
    """The source's entry point for Spark."""

    @classmethod
    def name(cls) -> str:
        """The source's name for `readStream.format`."""
        return SOURCE_NAME

    def schema(self) -> str:
        """One row for each file."""
        return TAKEN_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The reader, which plans batches and reads them."""
        # Spark calls this in a process that it starts for this stream alone.
        leave_pandas_out()
        return FilesStreamReader(self.options)


class FilesPartition(InputPartition):
    """The files of one task."""

    def __init__(self, files: Sequence[TakenFile]) -> None:
        super().__init__(tuple(files))


class FilesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches. Offset `{"batches": n}`: batches 0 to n - 1 are planned; each Spark batch takes exactly one.

    Args:
        options: As in `source_options`.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._source: FileSource = pickle.loads(bytes.fromhex(options["source"]))
        self._log = BatchLog(Path(options["log_folder"]))
        self._splits = int(options["splits"])
        self._taken: dict[str, tuple[int, int]] | None = None
        self._planned = 0
        self._changed: set[str] = set()
        self._frozen: list[FoundFile] | None = None
        self._pause = DrainedPause(options)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """The offset before all batches."""
        return {"batches": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limits the query to what exists now."""
        with errors_to_driver():
            self._frozen = list_files(self._source)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Plans the next batch, if there are files that no batch took; blocks during the listing."""
        with errors_to_driver():
            first = start["batches"]
            if self._pause.is_due(first):
                return start
            end = self.plan_next(first)
            if end > first and (planned := self._log.read(first)) is not None:
                self._pause.note(end, planned.after.lag)
            return {"batches": end}

    def plan_next(self, batch_id: int) -> int:
        """Plans a batch, if there are files that no batch took, and returns how many batches are planned then."""
        # Planned before a crash, but unknown to Spark: it must stay as it is, in case any process saw its log.
        if self._log.read(batch_id) is not None:
            return batch_id + 1
        taken = self._load_taken(batch_id)
        found = list_files(self._source) if self._frozen is None else self._frozen
        self._note_changed(found, taken)
        waiting = [file for file in found if file.path not in taken]
        if not waiting:
            return batch_id
        files = tuple(waiting[: self._source.max_files_per_batch])
        self._log.plan(BatchFiles(batch_id, files, len(taken), len(taken) + len(waiting)))
        return batch_id + 1

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The batch's files, neighbours together, in order."""
        partitions: list[InputPartition] = []
        for batch_id in range(start["batches"], end["batches"]):
            batch = self._log.read(batch_id)
            if batch is None:
                with errors_to_driver():
                    raise DataCorrupted(f"The checkpoint has no log of batch {batch_id}: it was changed. Restore it.")
            files = [
                TakenFile(batch_id, number, file.path, file.size_bytes, file.modified_us)
                for number, file in enumerate(batch.files)
            ]
            partitions += [FilesPartition(group) for group in split_files(files, self._splits)]
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The files of a task. Runs on executors."""
        return emit_files(partition.value)

    def commit(self, end: dict[str, int]) -> None:
        """Records that batches before `end` are done for good."""
        self._log.pack(end["batches"])

    def stop(self) -> None:
        """Nothing to close."""

    def _load_taken(self, batch_id: int) -> dict[str, tuple[int, int]]:
        """Files of batches before this one; cached, so that each log is read once."""
        if self._taken is None:
            self._taken = self._log.load_taken(batch_id - 1)
        else:
            for number in range(self._planned, batch_id):
                batch = self._log.read(number)
                if batch is None:
                    # Packed by another process: start again.
                    self._taken = self._log.load_taken(batch_id - 1)
                    break
                self._taken.update((file.path, file_state(file)) for file in batch.files)
        self._planned = batch_id
        return self._taken

    def _note_changed(self, found: list[FoundFile], taken: dict[str, tuple[int, int]]) -> None:
        changed = set(find_changed(found, taken))
        if changed != self._changed or (changed and not self._log.read_changed()):
            self._changed = changed
            self._log.write_changed(sorted(changed))
