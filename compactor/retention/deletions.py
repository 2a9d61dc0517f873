"""The files that a job deletes and those that it had to leave: for its log, the metrics and its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakelog.errors import LakelogError
from lakelog.format.jobs.job import Job
from lakelog.serving.logging_setup import Logger
from lakelog.storage.objects.deleting import LeftFile, delete_files
from lakelog.storage.objects.store import ObjectStore, StoredObject

from ..metrics import Metrics

_LOGGED: Final = 10
"""How many files of one job the log names with their reasons; the rest is only counted."""


class FilesLeft(LakelogError):
    """A job has done everything possible, but some files cannot be deleted; a later try finds only them."""

    default_reason = "FILES_LEFT"
    retryable = True


class Deletions:
    """Deletes files for one job.

    Args:
        store: The store with the files.
        job: The job.
        metrics: The measurements.
        log: Gets the first files that are left, each with its reason.
    """

    def __init__(self, store: ObjectStore, job: Job, metrics: Metrics, log: Logger) -> None:
        self._store = store
        self._job = job
        self._metrics = metrics
        self._log = log
        self._example = ""
        self.count = 0
        """Files that were deleted, or were gone already."""
        self.left: Final[set[str]] = set()
        """Paths of files that could not be deleted."""

    def delete(self, paths: Sequence[str]) -> list[str]:
        """Deletes files, and returns those that are gone now; does not try a file again that was left before.

        Raises:
            Unavailable: The store cannot be reached.
        """
        wanted = [path for path in paths if path not in self.left] if self.left else paths
        left = delete_files(self._store, wanted)
        for file in left:
            self.leave(file)
        gone = [path for path in wanted if path not in self.left] if left else list(wanted)
        self.count += len(gone)
        self._metrics.deleted_files.labels(self._job.kind).inc(len(gone))
        return gone

    def delete_listed(self, objects: Sequence[StoredObject]) -> None:
        """As `delete`, and counts the bytes; logs symbolic links, whose targets stay."""
        links = [each.path for each in objects if each.is_link]
        if links:
            self._log.warning("symbolic links deleted, but not their targets", links=links[:10])
        gone = set(self.delete([each.path for each in objects]))
        size_bytes = sum(each.size_bytes for each in objects if each.path in gone)
        self._metrics.deleted_bytes.labels(self._job.kind).inc(size_bytes)

    def leave(self, file: LeftFile) -> None:
        """Notes a file, or a folder of files, that cannot be deleted; idempotent."""
        if file.path in self.left:
            return
        if len(self.left) < _LOGGED:
            self._log.warning(
                "file cannot be deleted",
                job_id=self._job.job_id,
                table=self._job.table,
                path=file.path[:1000],
                reason=file.reason,
            )
        self._example = self._example or f"{file.path[:200]} ({file.reason[:500]})"
        self.left.add(file.path)
        self._metrics.left_files.labels(self._job.kind).inc()

    def describe_left(self) -> str:
        """Describes the files that are left, for people; empty: none is left."""
        if not self.left:
            return ""
        files = "1 file" if len(self.left) == 1 else f"{len(self.left)} files"
        return f"left {files} that cannot be deleted and will be tried again later, for instance {self._example}"
