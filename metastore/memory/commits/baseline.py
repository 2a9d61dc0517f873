"""The changelog baselines of tables, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakelog.format.commit.facts import BaselineChange
from lakelog.format.commit.request import BucketRef
from lakelog.format.compaction.commit_count import CommitsSinceFull
from lakelog.format.tables.snapshot import ChangelogState, SnapshotKind

from ...store.baseline import BaselineTransaction
from ..catalog import MemoryCatalog
from ..state import StoredTable


class MemoryBaselines(MemoryCatalog, BaselineTransaction):
    """See `metastore.store.baseline.BaselineTransaction`."""

    async def find_baseline(self, table_id: int, file_ids: Sequence[int]) -> frozenset[int]:
        return _find_baseline(self._table(table_id)) & frozenset(file_ids)

    async def begin_baseline(self, table_id: int, snapshot_id: int) -> None:
        table = self._table(table_id)
        live = [file_id for file_id, stored in table.files.items() if stored.removed_snapshot is None]
        self._change_baseline(table_id, BaselineChange(snapshot_id, tuple(live), ()))

    async def end_baseline(self, table_id: int, snapshot_id: int) -> None:
        self._change_baseline(table_id, BaselineChange(snapshot_id, (), tuple(_find_baseline(self._table(table_id)))))

    async def has_pending_changes(self, table_id: int) -> bool:
        table = self._table(table_id)
        live = {file_id for file_id, stored in table.files.items() if stored.removed_snapshot is None}
        return live != _find_baseline(table)

    async def set_defers_changelog(self, table_id: int, defers_changelog: bool) -> None:
        table = self._table(table_id)
        self._journal.set(table, "head", replace(table.head, defers_changelog=defers_changelog))

    async def find_full_count(self, table_id: int) -> CommitsSinceFull | None:
        return self._table(table_id).full_count

    async def put_full_count(self, table_id: int, known: CommitsSinceFull) -> None:
        self._journal.set(self._table(table_id), "full_count", known)

    async def count_data_commits(self, table_id: int, after: int, until: int) -> int:
        return sum(each.kind is not SnapshotKind.COMPACT for each in self._table(table_id).snapshots[after:until])

    async def list_written_buckets(self, table_id: int, after: int, until: int) -> list[BucketRef]:
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
    """Ids of the files that are in the baseline at a snapshot."""
    return frozenset(
        file_id
        for (file_id, first), until in table.baseline.items()
        if first <= snapshot_id and (until is None or until > snapshot_id)
    )


def _find_baseline(table: StoredTable) -> frozenset[int]:
    return frozenset(file_id for (file_id, _), until in table.baseline.items() if until is None)
