"""The job executor that expires snapshots, and deletes files that nothing needs any more (semantics 7.3).

    a step of expiry -> expired files listed -> deleted from the store -> forgotten -> the next step

Why each step may be repeated, and what a crash leaves:

1. The metastore decides, in one transaction, what expires and which files go with it. From then on nothing can refer to
   these files again. They are on a list of their own (reliability C4).
2. Files on that list are deleted; a file that is gone already is not an error.
3. Only then they are taken off the list. The next holder of the job finds the rest.

A file that cannot be deleted stays on the list and stops no other delete. It is tried again: the metastore makes the
job due again, after growing pauses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakelog.format.jobs.job import Job
from lakelog.format.retention.expiry import ExpiryStep

from ..executor import Control, FileJobExecutor
from .deletions import Deletions

_AT_ONCE: Final = 1_000
"""Files that are deleted before they are taken off the list: as many as S3 deletes in one request."""


@dataclass
class _Done:
    """What a job has done so far."""

    snapshots: int = 0
    held_by: str = ""

    def count(self, step: ExpiryStep) -> None:
        self.snapshots += step.earliest - step.earliest_before
        lease = step.held_by[0] if step.held_by else None
        self.held_by = (
            "" if lease is None else f"{lease.kind.value} '{lease.holder}' holds snapshot {lease.snapshot_id}"
        )

    def describe(self, deletions: Deletions) -> str:
        parts = []
        if self.snapshots:
            parts.append(f"expired {self.snapshots} {'snapshot' if self.snapshots == 1 else 'snapshots'}")
        if deletions.count:
            parts.append(f"deleted {deletions.count} {'file' if deletions.count == 1 else 'files'}")
        if deletions.left:
            parts.append(deletions.describe_left())
        if self.held_by:
            parts.append(self.held_by)
        return ", ".join(parts)


class ExpiryJobExecutor(FileJobExecutor):
    """Implements `JobExecutor` for jobs of the kind `expire`, each of one table."""

    def do(self, job: Job, control: Control) -> str:
        """Expires what is due and deletes expired files, until nothing is left."""
        store = self._stores.open(self._metastore.get_table_by_uuid(job.table_uuid).location)
        done = _Done()
        deletions = Deletions(store, job, self._metrics, self._log)
        is_done = False
        while not is_done and not control.is_stopping:
            control.check()
            step = self._metastore.expire_snapshots(job.table_uuid, by_itself=True)
            done.count(step)
            self._metrics.expired_snapshots.inc(step.earliest - step.earliest_before)
            self._delete_expired(job, control, deletions)
            is_done = step.is_done
        if done.snapshots or deletions.count:
            self._log.info(
                "expired", job_id=job.job_id, table=job.table, snapshots=done.snapshots, deleted_files=deletions.count
            )
        return done.describe(deletions)

    def _delete_expired(self, job: Job, control: Control, deletions: Deletions) -> None:
        after = ""
        while not control.is_stopping:
            control.check()
            paths = self._metastore.list_expired_files(job.table_uuid, _AT_ONCE, after)
            if not paths:
                return
            gone = deletions.delete(paths)
            if gone:
                self._metastore.forget_expired_files(job.table_uuid, gone)
            after = paths[-1]
