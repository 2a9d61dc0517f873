"""The job executor that purges dropped tables: once one can no longer be restored, its files and records are deleted.

    marked as purged -> files deleted -> rows deleted, some at a time -> files once more -> forgotten

Why each step may be repeated, and what a crash leaves:

1. The metastore marks the table as purged under the lock that restoring takes. A holder that dies before this has done
   nothing. Afterwards no reader uses the files, and the next holder of the job begins again with what is left.
2. Files are deleted before rows, so that a crash between them leaves a table that is still known, with its job.
3. A writer that did not know of the drop may have written in between: hence the second deletion. It cannot commit.
4. The end of the job forgets the table; a job that is gone is done.
5. While a file that cannot be deleted is left, or a folder that cannot be read, the table stays known, and the job is
   tried again after growing pauses.
"""

from __future__ import annotations

from typing import Final

from lakelog.errors import InvalidArgument
from lakelog.format.jobs.job import Job
from lakelog.format.retention.dropped import DroppedTable
from lakelog.storage.objects.deleting import LeftFile
from lakelog.storage.objects.store import ObjectStore

from ..executor import Control, FileJobExecutor
from .deletions import Deletions, FilesLeft

_PAGE: Final = 1000
"""Files that are deleted between two checks whether the job is still ours."""


class PurgeJobExecutor(FileJobExecutor):
    """Implements `JobExecutor` for jobs of the kind `purge`, each of one dropped table."""

    def do(self, job: Job, control: Control) -> str:
        """Purges the table; when stopped, it ends after the current page."""
        dropped = self._metastore.begin_purge(job.job_id, job.epoch)
        _check_location(dropped)
        store = self._stores.open(dropped.location)
        deletions = Deletions(store, job, self._metrics, self._log)
        self._delete_files(store, control, deletions)
        rows = 0
        while not control.is_stopping:
            control.check()
            deleted = self._metastore.purge_rows(job.job_id, job.epoch)
            if not deleted:
                self._delete_files(store, control, deletions)
                break
            rows += deleted
        said = f"deleted {deletions.count} files of the dropped table and {rows} rows of its records"
        if deletions.left and not control.is_stopping:
            raise FilesLeft(f"{said}, {deletions.describe_left()}")
        self._log.info(
            "purged", table=str(dropped.name), table_uuid=dropped.table_uuid, files=deletions.count, rows=rows
        )
        return said

    def _delete_files(self, store: ObjectStore, control: Control, deletions: Deletions) -> None:
        for page in store.list_pages(_PAGE, lambda folder, error: deletions.leave(LeftFile(folder, error.message))):
            control.check()
            if control.is_stopping:
                return
            deletions.delete_listed(page)
        store.delete_empty_folders()


def _check_location(dropped: DroppedTable) -> None:
    """Checks that a location holds nothing but this table, as every location that the metastore has chosen does."""
    if not dropped.location.endswith(f"/{dropped.table_uuid}/"):
        raise InvalidArgument(
            f"The location {dropped.location} of the dropped table {dropped.name} does not end with its uuid "
            f"{dropped.table_uuid}, so that other files may be there. Nothing was deleted; delete its files by hand.",
            metadata={"table": str(dropped.name), "location": dropped.location},
        )
