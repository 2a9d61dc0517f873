"""What a store does for full compactions and the changelogs that they tell: a part of `metastore.store.transaction`.

A file is *told* from one snapshot on and until another: its rows, merged with those of all others that are, are the
state to which the table's changelog has led readers by then. Whether it is live is another matter: what an overwrite
took away stays told until a full compaction has told so (semantics 3.6, 5.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakelog.format.commit.request import BucketRef
from lakelog.format.compaction.commit_count import CommitsSinceFull


class BaselineTransaction(Protocol):
    """Which files' rows the changelog of a table has told. Everything is changed under the lock of the table's head."""

    async def find_baseline(self, table_id: int, file_ids: Sequence[int]) -> frozenset[int]:
        """Those of some files that are told now."""
        ...

    async def begin_baseline(self, table_id: int, snapshot_id: int) -> None:
        """Lets all live files of a table of which none is told be so from a snapshot on."""
        ...

    async def end_baseline(self, table_id: int, snapshot_id: int) -> None:
        """Lets no file of a table be told any more from a snapshot on."""
        ...

    async def has_pending_changes(self, table_id: int) -> bool:
        """Whether some file of a table is live and not told, or told and not live."""
        ...

    async def set_defers_changelog(self, table_id: int, defers_changelog: bool) -> None:
        """Changes whether full compactions tell what the commits to a table change."""
        ...

    async def find_full_count(self, table_id: int) -> CommitsSinceFull | None:
        """The commits since the last full compaction that they made due; None: they were never counted."""
        ...

    async def put_full_count(self, table_id: int, known: CommitsSinceFull) -> None:
        """Writes this down, for whoever plans the table's work next; its work cursor is locked."""
        ...

    async def count_data_commits(self, table_id: int, after: int, until: int) -> int:
        """How many of the snapshots behind `after`, up to and with `until`, are no compactions."""
        ...

    async def list_written_buckets(self, table_id: int, after: int, until: int) -> list[BucketRef]:
        """Where the snapshots behind `after`, up to and with `until`, added or removed files, in order.

        Compactions count where full compactions are to tell what changed and these did not.
        """
        ...
