"""Plans the batches of a folder: each takes the next files that no batch took, and stays as it was planned.

Spark's own file source is not sufficient. It orders files only by time, skips files that are older than its newest by
more than a week, reads the content of a file when its batch runs without comparing it with the listing, and leaves out
files that are gone.
"""

from __future__ import annotations

from ..pipeline.spec import FileSource
from .batch_log import BatchFiles, BatchLog
from .listing import FoundFile, file_state, find_changed, list_files


class FilesPlanner:
    """Plans batches, one after the other.

    Args:
        source: The folder.
        log: Which files each batch takes.
    """

    def __init__(self, source: FileSource, log: BatchLog) -> None:
        self._source = source
        self._log = log
        self._taken: dict[str, tuple[int, int]] | None = None
        self._planned = 0
        self._changed: set[str] = set()
        self._frozen: list[FoundFile] | None = None

    def freeze(self) -> None:
        """Limits what is planned from now on to the files that exist now."""
        self._frozen = list_files(self._source)

    def plan(self, batch_id: int) -> bool:
        """Plans a batch, if there are files that no batch took; returns whether it is planned. Blocks on the listing.

        Raises:
            DataCorrupted: A log is missing or malformed.
            NotFound: The folder does not exist.
        """
        # Planned before a crash: it must stay as it is, in case any process saw its log.
        if self._log.read(batch_id) is not None:
            return True
        taken = self._load_taken(batch_id)
        found = list_files(self._source) if self._frozen is None else self._frozen
        self._note_changed(found, taken)
        waiting = [file for file in found if file.path not in taken]
        if not waiting:
            return False
        files = tuple(waiting[: self._source.max_files_per_batch])
        self._log.plan(BatchFiles(batch_id, files, len(taken), len(taken) + len(waiting)))
        return True

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
