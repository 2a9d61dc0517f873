"""Snapshot leases, expiry and expired files in memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lakelog.format.commit.facts import PlacedChangelogFile
from lakelog.format.retention.expiry import SnapshotLease, SnapshotLeaseKind

from ..store.retention import Cleared, Clearing, ExpiryState, RetentionTransaction
from .catalog import MemoryCatalog
from .state import StoredFile, StoredTable


class MemoryRetention(MemoryCatalog, RetentionTransaction):
    """See `metastore.store.retention.RetentionTransaction`."""

    async def list_leases(self, table_id: int) -> list[SnapshotLease]:
        now_ms = self._clock.now_ms()
        return [lease for lease in self._table(table_id).leases.values() if lease.expires_at_ms > now_ms]

    async def put_lease(
        self, table_id: int, holder: str, snapshot_id: int, duration_ms: int, owner: str
    ) -> tuple[int, str, int]:
        now_ms = self._clock.now_ms()
        table = self._table(table_id)
        lease = SnapshotLease(SnapshotLeaseKind.READER, holder, snapshot_id, now_ms + duration_ms)
        left = {name: each for name, each in table.leases.items() if each.expires_at_ms > now_ms}
        self._journal.set(table, "leases", {**left, holder: lease})
        owners = {name: each for name, each in table.lease_owners.items() if name in left}
        owners[holder] = owners.get(holder) or owner
        self._journal.set(table, "lease_owners", owners)
        others = [name for name, each in owners.items() if each == owners[holder] and name != holder]
        return lease.expires_at_ms, owners[holder], len(others)

    async def delete_lease(self, table_id: int, holder: str) -> str:
        table = self._table(table_id)
        owner = table.lease_owners.get(holder, "") if holder in table.leases else ""
        self._journal.set(table, "leases", {name: lease for name, lease in table.leases.items() if name != holder})
        return owner

    async def list_needed_tables(self, limit: int) -> list[str]:
        tables = [table for table in self._live() if table.head.earliest_change_id < table.head.latest_snapshot_id]
        return [
            table.new.table_uuid
            for table in sorted(tables, key=lambda each: each.snapshots[each.head.earliest_change_id].committed_at_ms)
        ][:limit]

    async def load_expiry(self, table_id: int) -> ExpiryState:
        return self._table(table_id).expiry

    async def put_expiry(self, table_id: int, state: ExpiryState) -> None:
        self._journal.set(self._table(table_id), "expiry", state)

    async def set_earliest(self, table_id: int, earliest: int, earliest_change: int) -> None:
        table = self._table(table_id)
        head = replace(table.head, earliest_snapshot_id=earliest, earliest_change_id=earliest_change)
        self._journal.set(table, "head", head)

    async def measure_expired(self, clearing: Clearing) -> Cleared:
        table = self._table(clearing.table_id)
        sizes = [stored.placed.file.size_bytes for stored in _find_expired(table, clearing)]
        sizes += [each.file.size_bytes for each in table.changelog_files if _is_expired(each, clearing)]
        return Cleared(len(sizes), sum(sizes))

    async def clear_expired(self, clearing: Clearing) -> Cleared:
        table, journal, limit = self._table(clearing.table_id), self._journal, clearing.limit
        gone = list(itertools.islice(_find_expired(table, clearing), limit))
        paths = {stored.placed.file.path: stored.placed.file.size_bytes for stored in gone}
        for stored in gone:
            journal.pop(table.files, stored.placed.file_id)
            if stored.placed.file.deletion_vector_path:
                paths.setdefault(stored.placed.file.deletion_vector_path, 0)
        old = [each for each in table.changelog_files if _is_expired(each, clearing)][:limit]
        journal.set(table, "changelog_files", [each for each in table.changelog_files if each not in old])
        paths.update({each.file.path: each.file.size_bytes for each in old})
        expired = [
            each.snapshot_id
            for each in table.snapshots[: max(clearing.rows_before - 1, 0)]
            if each.snapshot_id not in clearing.named and each.snapshot_id not in table.expired
        ][:limit]
        journal.set(table, "expired", table.expired | frozenset(expired))
        offsets = [key for key in table.log_offsets if key[1] < clearing.rows_before][:limit]
        for offset in offsets:
            journal.pop(table.log_offsets, offset)
        expired_paths = self._find_unreferred(table, paths)
        now_ms = self._clock.now_ms()
        listed = {**dict.fromkeys(expired_paths, now_ms), **table.expired_paths}
        journal.set(table, "expired_paths", listed)
        baseline = [
            key
            for key, ended in table.baseline.items()
            if ended is not None and _is_baseline_over(table, key, ended, clearing)
        ]
        for key in baseline:
            journal.pop(table.baseline, key)
        is_done = max(len(gone), len(old), len(expired), len(offsets)) < limit
        return Cleared(len(expired_paths), sum(expired_paths.values()), is_done)

    async def list_expired(self, table_id: int, limit: int, after: str = "") -> list[str]:
        return sorted(path for path in self._table(table_id).expired_paths if path > after)[:limit]

    async def find_expired_age(self, table_id: int) -> int | None:
        listed = self._table(table_id).expired_paths
        return max(self._clock.now_ms() - max(listed.values()), 0) if listed else None

    async def forget_expired(self, table_id: int, paths: Sequence[str]) -> None:
        table = self._table(table_id)
        gone = set(paths)
        left = {path: time_ms for path, time_ms in table.expired_paths.items() if path not in gone}
        self._journal.set(table, "expired_paths", left)

    def _find_unreferred(self, table: StoredTable, paths: dict[str, int]) -> dict[str, int]:
        left = [stored.placed.file for stored in table.files.values()]
        referred = {file.path for file in left} | {file.deletion_vector_path for file in left}
        # A log segment may be a data file as well.
        referred |= {each.file.path for each in table.changelog_files}
        return {path: size for path, size in paths.items() if path not in referred}


def _find_expired(table: StoredTable, clearing: Clearing) -> Iterator[StoredFile]:
    baseline: dict[int, list[tuple[int, int | None]]] = {}
    for (file_id, first), ended in table.baseline.items():
        baseline.setdefault(file_id, []).append((first, ended))
    for stored in table.files.values():
        added, removed = stored.placed.added_snapshot, stored.removed_snapshot
        if removed is None or removed > clearing.until:
            continue
        spans = [(added, removed), *baseline.get(stored.placed.file_id, ())]
        if any(ended is None or ended > clearing.until for _, ended in spans):
            # It is needed while the baseline has its rows, until their removal is emitted.
            continue
        if not any(clearing.after < ended for _, ended in spans if ended is not None):
            continue
        if not any(first <= each < (ended or 0) for each in clearing.named for first, ended in spans):
            yield stored


def _is_expired(placed: PlacedChangelogFile, clearing: Clearing) -> bool:
    """Whether a changelog file expires, or a log segment, which expires with its snapshot's state."""
    return placed.snapshot_id < (clearing.until if placed.is_log else clearing.changes_before)


def _is_baseline_over(table: StoredTable, key: tuple[int, int], ended: int, clearing: Clearing) -> bool:
    """Whether a file's time in the baseline has expired; the file itself may still exist, or be gone."""
    file_id, first = key
    if ended > clearing.until or any(first <= each < ended for each in clearing.named):
        return False
    stored = table.files.get(file_id)
    return stored is None or stored.removed_snapshot is None or stored.removed_snapshot > clearing.until
