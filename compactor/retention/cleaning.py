"""The job executor that clears away files of attempts that will never be committed.

      attempts that are over -> aborted in the metastore -> their files deleted -> forgotten

Why each step may be repeated, and what a crash leaves:

1. An attempt that has been open for days is aborted: from then on it cannot be committed (reliability C4).
2. Its files are deleted. A crash leaves the rest of them, and the attempt, to the next holder of the job.
3. An attempt is forgotten only when no files are left below it. An unknown attempt cannot be committed.

A file that cannot be deleted, or a folder that cannot be read, stops no other delete. It is tried again whenever the
metastore looks for such attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakelog.errors import LakelogError, Unavailable
from lakelog.format.commit.facts import AttemptState
from lakelog.format.jobs.job import Job
from lakelog.format.retention.table_files import ABANDONED_MS, MAX_FILES_A_CALL, SETTLED_MS, AttemptAge
from lakelog.storage.objects.deleting import LeftFile
from lakelog.storage.objects.store import ObjectStore

from ..executor import Control, FileJobExecutor
from .deletions import Deletions

_BATCH: Final = 500
"""Attempts that are aborted and forgotten together: some seconds of listing on a remote store."""


class CleaningJobExecutor(FileJobExecutor):
    """Implements `JobExecutor` for jobs of the kind `clean`, each of one table."""

    def do(self, job: Job, control: Control) -> str:
        """Clears attempts away until none is left that is old enough."""
        info = self._metastore.get_table_by_uuid(job.table_uuid)
        store = self._stores.open(info.location)
        deletions = Deletions(store, job, self._metrics, self._log)
        attempts = 0
        # Those that were tried: a file that cannot be deleted, or one that a dead attempt's writer still writes, keeps
        # no other attempt.
        tried: set[str] = set()
        while not control.is_stopping and len(tried) <= MAX_FILES_A_CALL - _BATCH:
            control.check()
            found = self._metastore.list_unfinished_attempts(
                job.table_uuid, open_ms=ABANDONED_MS, aborted_ms=SETTLED_MS, limit=_BATCH + len(tried)
            )
            batch = [each for each in found if each.attempt_id not in tried]
            if not batch:
                break
            tried |= {each.attempt_id for each in batch}
            empty = self._delete(store, self._abort(job.table_uuid, batch), control, deletions)
            attempts += self._metastore.forget_attempts(job.table_uuid, empty) if empty else 0
            tried -= set(empty)
        parts = []
        if attempts:
            self._log.info("cleaned", table=str(info.name), attempts=attempts, files=deletions.count)
            parts.append(f"deleted {deletions.count} files of {attempts} attempts that were never committed")
        if deletions.left:
            parts.append(deletions.describe_left())
        return ", ".join(parts)

    def _abort(self, table_uuid: str, attempts: Sequence[AttemptAge]) -> list[str]:
        """Returns which of the attempts can never be committed from now on."""
        aborted = [each.attempt_id for each in attempts if each.state is AttemptState.ABORTED]
        still_open = [each.attempt_id for each in attempts if each.state is AttemptState.OPEN]
        if still_open:
            aborted += self._metastore.abort_attempts(table_uuid, still_open, ABANDONED_MS)
        return aborted

    def _delete(
        self, store: ObjectStore, attempt_ids: Sequence[str], control: Control, deletions: Deletions
    ) -> list[str]:
        """Returns the attempts below which no file is left."""
        empty = []
        for attempt_id in attempt_ids:
            control.check()
            if control.is_stopping:
                break
            folder = f"data/{attempt_id}"
            try:
                found = list(store.list_objects(folder))
            except Unavailable:
                raise
            except LakelogError as error:
                # Whatever is in it keeps no other attempt.
                deletions.leave(LeftFile(folder, error.message))
                continue
            deletions.delete_listed(found)
            if not found or next(store.list_objects(folder), None) is None:
                empty.append(attempt_id)
        return empty
