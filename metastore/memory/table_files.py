"""Files below tables' locations in memory, and attempts by age."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakelog.format.commit.facts import AttemptState, PlacedFile
from lakelog.format.jobs.due_job import FAILED_REST_MS
from lakelog.format.jobs.job import CLEAN, JobState
from lakelog.format.retention.partition_expiry import PartitionFiles
from lakelog.format.retention.table_files import AttemptAge, FileUse, UsedFile, UsedPage

from ..store.table_files import TableFilesTransaction
from .catalog import MemoryCatalog


class MemoryTableFiles(MemoryCatalog, TableFilesTransaction):
    """See `metastore.store.table_files.TableFilesTransaction`."""

    async def find_used_files(self, table_id: int, paths: Sequence[str]) -> list[UsedFile]:
        table = self._table(table_id)
        known = {path: UsedFile(path, FileUse.EXPIRED, None) for path in table.expired_paths}
        used = self._list_used(table_id)
        known.update({each.path: replace(each, first_snapshot_id=None, last_snapshot_id=None) for each in used})
        return [known[path] for path in dict.fromkeys(paths) if path in known]

    async def list_used_files(self, table_id: int, cursor: str, limit: int) -> UsedPage:
        if cursor and not (cursor.isascii() and cursor.isdigit()):
            raise ValueError(cursor)
        start = int(cursor or 0)
        files = self._list_used(table_id)
        end = start + limit
        return UsedPage(tuple(files[start:end]), str(end) if end < len(files) else "")

    async def list_partition_files(self, table_id: int, after: bytes | None, limit: int) -> list[PartitionFiles]:
        live: dict[bytes, list[PlacedFile]] = {}
        for stored in self._table(table_id).files.values():
            if stored.removed_snapshot is None:
                live.setdefault(stored.placed.file.partition, []).append(stored.placed)
        wanted = [partition for partition in sorted(live) if partition > (after or b"")][:limit]
        return [
            PartitionFiles(
                partition,
                len(live[partition]),
                sum(placed.file.row_count for placed in live[partition]),
                sum(placed.file.size_bytes for placed in live[partition]),
                max(placed.order_key.time_ms for placed in live[partition]),
            )
            for partition in wanted
        ]

    async def find_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> list[AttemptAge]:
        return [each for each in self._list_attempts(table_uuid) if each.attempt_id in set(attempt_ids)]

    async def list_unfinished_attempts(
        self, table_uuid: str, open_ms: int, aborted_ms: int, limit: int
    ) -> list[AttemptAge]:
        least = {AttemptState.OPEN: open_ms, AttemptState.ABORTED: aborted_ms}
        found = [
            each for each in self._list_attempts(table_uuid) if each.state in least and each.age_ms >= least[each.state]
        ]
        return sorted(found, key=lambda each: -each.age_ms)[:limit]

    async def list_uncleaned_tables(self, open_ms: int, aborted_ms: int, limit: int) -> list[str]:
        rested_ms = self._clock.now_ms() - FAILED_REST_MS
        busy = {
            stored.table_id
            for stored in self._state.jobs.values()
            if stored.job.kind == CLEAN
            and (
                stored.job.state in (JobState.DUE, JobState.LEASED)
                or (stored.job.state is JobState.FAILED and stored.job.updated_at_ms > rested_ms)
            )
        }
        found = []
        for table in self._live():
            uuid = table.new.table_uuid
            if table.table_id not in busy and await self.list_unfinished_attempts(uuid, open_ms, aborted_ms, 1):
                found.append(uuid)
        return found[:limit]

    async def abort_old_attempts(
        self, table_uuid: str, attempt_ids: Sequence[str], open_ms: int, others_ms: int, owner: str
    ) -> None:
        attempts = self._state.attempts
        for each in await self.find_attempts(table_uuid, attempt_ids):
            is_old = each.age_ms >= open_ms and self._may_end(each, others_ms, owner)
            if each.state is AttemptState.OPEN and is_old:
                aborted = replace(attempts[each.attempt_id], state=AttemptState.ABORTED)
                self._journal.put(attempts, each.attempt_id, aborted)

    async def forget_attempts(self, table_uuid: str, attempt_ids: Sequence[str], others_ms: int, owner: str) -> int:
        attempts, count = self._state.attempts, 0
        for each in await self.find_attempts(table_uuid, attempt_ids):
            if each.state is not AttemptState.ABORTED or not self._may_end(each, others_ms, owner):
                continue
            count += 1
            attempt = attempts[each.attempt_id]
            left = tuple(uuid for uuid in attempt.table_uuids if uuid != table_uuid)
            if left:
                self._journal.put(attempts, each.attempt_id, replace(attempt, table_uuids=left))
            else:
                self._journal.pop(attempts, each.attempt_id)
        return count

    def _may_end(self, attempt: AttemptAge, others_ms: int, owner: str) -> bool:
        """Whether it belongs to this principal or to none, or is so old that its owner is certainly gone."""
        return self._state.attempts[attempt.attempt_id].owner in ("", owner) or attempt.age_ms >= others_ms

    def _list_used(self, table_id: int) -> list[UsedFile]:
        table = self._table(table_id)
        data = [
            (
                stored.placed.file,
                stored.placed.added_snapshot,
                None if stored.removed_snapshot is None else stored.removed_snapshot - 1,
            )
            for _, stored in sorted(table.files.items())
        ]
        return [
            *(
                UsedFile(file.deletion_vector_path, FileUse.DELETION_VECTORS, None, first, last)
                for file, first, last in data
                if file.deletion_vector_path
            ),
            *(UsedFile(file.path, FileUse.DATA, file.size_bytes, first, last) for file, first, last in data),
            *(
                UsedFile(each.file.path, FileUse.CHANGELOG, each.file.size_bytes, each.snapshot_id, each.snapshot_id)
                for each in table.changelog_files
            ),
        ]

    def _list_attempts(self, table_uuid: str) -> list[AttemptAge]:
        now_ms = self._clock.now_ms()
        opened = self._state.attempt_times
        return [
            AttemptAge(attempt.attempt_id, attempt.state, now_ms - opened[attempt.attempt_id])
            for attempt in self._state.attempts.values()
            if table_uuid in attempt.table_uuids
        ]
