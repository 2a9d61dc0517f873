"""What changelogs have told, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakelog.format.commit.facts import BaselineChange
from lakelog.format.commit.request import BucketRef
from lakelog.format.compaction.commit_count import CommitsSinceFull
from lakelog.format.tables.snapshot import ChangelogState, SnapshotKind

from ..catalog import MemoryCatalog
from ..state import StoredTable


class MemoryBaselines(MemoryCatalog):
    """See `metastore.store.baseline.BaselineTransaction`."""

    async def find_baseline(self, table_id: int, file_ids: Sequence[int]) -> frozenset[int]:
        """Those of some files that are told now."""
        return _find_baseline(self._table(table_id)) & frozenset(file_ids)

    async def begin_baseline(self, table_id: int, snapshot_id: int) -> None:
        """Lets all live files of a table of which none is told be so from a snapshot on."""
        table = self._table(table_id)
        live = [file_id for file_id, stored in table.files.items() if stored.removed_snapshot is None]
        self._change_baseline(table_id, BaselineChange(snapshot_id, tuple(live), ()))

    async def end_baseline(self, table_id: int, snapshot_id: int) -> None:
        """Lets no file of a table be told any more from a snapshot on."""
        self._change_baseline(table_id, BaselineChange(snapshot_id, (), tuple(_find_baseline(self._table(table_id)))))

    async def has_pending_changes(self, table_id: int) -> bool:
        """Whether some file of a table is live and not told, or told and not live."""
        table = self._table(table_id)
        live = {file_id for file_id, stored in table.files.items() if stored.removed_snapshot is None}
        return live != _find_baseline(table)

    async def set_defers_changelog(self, table_id: int, defers_changelog: bool) -> None:
        """Changes whether full compactions tell what the commits to a table change."""
        table = self._table(table_id)
        self._journal.set(table, "head", replace(table.head, defers_changelog=defers_changelog))

    async def find_full_count(self, table_id: int) -> CommitsSinceFull | None:
        """The commits since the last full compaction that they made due; None: they were never counted."""
        return self._table(table_id).full_count

    async def put_full_count(self, table_id: int, known: CommitsSinceFull) -> None:
        """Writes this down, for whoever plans the table's work next."""
        self._journal.set(self._table(table_id), "full_count", known)

    async def count_data_commits(self, table_id: int, after: int, until: int) -> int:
        """How many of some snapshots are no compactions."""
        return sum(each.kind is not SnapshotKind.COMPACT for each in self._table(table_id).snapshots[after:until])

    async def list_written_buckets(self, table_id: int, after: int, until: int) -> list[BucketRef]:
        """Where some snapshots added or removed files, in order."""
        table = self._table(table_id)
        wanted = {
            each.snapshot_id
            for each in table.snapshots[after:until]
            if each.kind is not SnapshotKind.COMPACT or each.changelog is ChangelogState.LATER
        }
        found = {
            (stored.placed.file.partition, stored.placed.file.bucket)
            for stored in table.files.values()
            if stored.placed.added_snapshot in wanted or stored.removed_snapshot in wanted
        }
        return [BucketRef(*each) for each in sorted(found)]

    def _change_baseline(self, table_id: int, change: BaselineChange) -> None:
        baseline = self._table(table_id).baseline
        ended = set(change.ended)
        for key in [key for key, until in baseline.items() if until is None and key[0] in ended]:
            self._journal.put(baseline, key, change.snapshot_id)
        for file_id in change.begun:
            self._journal.put(baseline, (file_id, change.snapshot_id), None)


def find_baseline_at(table: StoredTable, snapshot_id: int) -> frozenset[int]:
    """Ids of the files whose rows were told up to a snapshot."""
    return frozenset(
        file_id
        for (file_id, first), until in table.baseline.items()
        if first <= snapshot_id and (until is None or until > snapshot_id)
    )


def _find_baseline(table: StoredTable) -> frozenset[int]:
    return frozenset(file_id for (file_id, _), until in table.baseline.items() if until is None)
