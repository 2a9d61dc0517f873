"""A folder of files as the source of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from lakelog.serving.logging_setup import Logger

from ..pipeline.spec import FileSource
from ..progress import Progress
from ..records.tasks import ReadTask, file_reader
from ..source import ReadTasks
from .batch_log import BatchFiles, BatchLog
from .listing import FoundFile
from .stream import SOURCE_NAME, FilesStreamReader, register_source, source_options


class FilesSource:
    """See `writer.source.Source`.

    Args:
        source: The folder.
        batch_log: Which files each batch takes.
        task: How files are read; its `batch_id` is each batch's own.
    """

    def __init__(self, source: FileSource, batch_log: BatchLog, task: Callable[[int], ReadTask]) -> None:
        self._source = source
        self._log = batch_log
        self._task = task
        self._changed: tuple[str, ...] = ()

    def read_batch(self, batch_id: int) -> BatchFiles | None:
        return self._log.read(batch_id)

    def refresh(self, batch_id: int, log: Logger) -> None:
        """Brings the log of a batch that is planned but not committed up to date with files that changed since.

        Nothing of it has been committed, so its files may be read as they are now: a file that was repaired, or that
        was still being written when the batch was planned. A file that is gone stays in the batch, which says so.
        """
        batch = self._log.read(batch_id)
        if batch is None:
            return
        now = [self._look(file) for file in batch.files]
        changed = [file.path for file, seen in zip(batch.files, now, strict=True) if file != seen]
        if changed:
            log.warning(
                "files of the next batch changed; they are read as they are now", batch_id=batch_id, paths=changed[:20]
            )
            self._log.plan_again(BatchFiles(batch_id, tuple(now), batch.taken_before, batch.listed))

    def plan_first(self) -> bool:
        return FilesStreamReader(dict(self.spark_source(1)[1])).plan_next(0) > 0

    def reader(self, batch_id: int) -> ReadTasks:
        return file_reader(self._task(batch_id))

    def register(self, spark: SparkSession) -> None:
        register_source(spark)

    def spark_source(self, splits: int) -> tuple[str, Mapping[str, str]]:
        return SOURCE_NAME, source_options(self._source, self._log.folder, splits)

    def report_changes(self, progress: Progress) -> None:
        """Files that changed after they were read."""
        changed = self._log.read_changed()
        if changed != self._changed:
            self._changed = changed
            progress.files_changed(changed)

    def _look(self, file: FoundFile) -> FoundFile:
        try:
            status = (self._source.path / file.path).stat()
        except OSError:
            return file
        return FoundFile(file.path, status.st_size, status.st_mtime_ns // 1000)
