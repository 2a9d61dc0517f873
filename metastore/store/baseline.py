"""What a store does for full compactions and the changelogs that they emit: a part of `metastore.store.transaction`.

A file is in the *baseline* from one snapshot until another. The rows of all files of the baseline, merged, are the
state to which the table's changelog has led readers. Whether a file is live is another question: a file that an
overwrite removed stays in the baseline until a full compaction has emitted the removal (semantics 3.6, 5.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakelog.format.commit.request import BucketRef
from lakelog.format.compaction.commit_count import CommitsSinceFull


class BaselineTransaction(Protocol):
    """Which files' rows the changelog of a table has emitted. All changes happen under the lock of the table's head."""

    async def find_baseline(self, table_id: int, file_ids: Sequence[int]) -> frozenset[int]:
        """Returns those of some files that are in the baseline now."""
        ...

    async def begin_baseline(self, table_id: int, snapshot_id: int) -> None:
        """Puts all live files of a table that has no baseline into the baseline, from a snapshot on."""
        ...

    async def end_baseline(self, table_id: int, snapshot_id: int) -> None:
        """Removes all files of a table from the baseline, from a snapshot on."""
        ...

    async def has_pending_changes(self, table_id: int) -> bool:
        """Whether some file of a table is live but not in the baseline, or in the baseline but not live."""
        ...

    async def set_defers_changelog(self, table_id: int, defers_changelog: bool) -> None:
        """Changes whether full compactions emit what the commits to a table change."""
        ...

    async def find_full_count(self, table_id: int) -> CommitsSinceFull | None:
        """The commits since the last full compaction that they made due; None: they were never counted."""
        ...

    async def put_full_count(self, table_id: int, known: CommitsSinceFull) -> None:
        """Stores the count for the next planning of the table's work. The table's work cursor is locked."""
        ...

    async def count_data_commits(self, table_id: int, after: int, until: int) -> int:
        """How many of the snapshots after `after`, up to and including `until`, are not compactions."""
        ...

    async def list_written_buckets(self, table_id: int, after: int, until: int) -> list[BucketRef]:
        """The buckets in which the snapshots after `after` up to `until` added or removed files, in order.

        Compactions count where full compactions are to emit the changes and these compactions did not.
        """
        ...
