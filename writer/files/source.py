"""A folder of files as the source of a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakelog.serving.logging_setup import Logger

from ..pipeline.spec import FileSource
from ..progress import Progress
from ..records.discovery import file_discoverer
from ..records.tasks import ReadTask, file_reader
from ..source import BatchTasks
from .batch_log import BatchFiles, BatchLog
from .listing import FoundFile
from .planner import FilesPlanner
from .tasks import TakenFile, split_files

_FEW_BYTES: Final = 1 << 20
"""Files of this size together can hold few rows, and are read through quickly if they hold many."""


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
        self._planner = FilesPlanner(source, batch_log)
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

    def freeze(self) -> None:
        self._planner.freeze()

    def plan(self, batch_id: int) -> bool:
        return self._planner.plan(batch_id)

    def split(self, batch_id: int, splits: int) -> BatchTasks:
        groups = self.group(batch_id, splits)
        may_be_few = sum(file.size_bytes for group in groups for file in group) <= _FEW_BYTES
        task = self._task(batch_id)
        return BatchTasks(len(groups), file_reader(task, groups), may_be_few, file_discoverer(task, groups))

    def group(self, batch_id: int, splits: int) -> list[list[TakenFile]]:
        """The batch's files by task, neighbours together, in order."""
        files = [
            TakenFile(batch_id, number, file.path, file.size_bytes, file.modified_us)
            for number, file in enumerate(self._log.load(batch_id).files)
        ]
        return split_files(files, splits)

    def forget(self, before: int) -> None:
        self._log.pack(before)

    def close(self) -> None:
        """Nothing to close."""

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
