"""How far external logs are published: a part of `metastore.service`."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.format.commit.facts import AttemptState
from lakelog.format.log.state import PublishReport, PublishState, SnapshotOffsets

from .publishing import Publishing


class PublishCalls:
    """What `lakelog.client.metastore.logs.Logs` says of publishing."""

    _publishing: Publishing

    async def get_publish_state(self, table_uuid: str) -> PublishState:
        """How far a table's log is published."""
        return await self._publishing.get_publish_state(table_uuid)

    async def report_published(self, report: PublishReport) -> None:
        """Writes down how far a log is published."""
        await self._publishing.report_published(report)

    async def find_log_offsets(self, table_uuid: str, *, until: int | None = None) -> SnapshotOffsets | None:
        """Where the newest snapshot whose offsets are known ends."""
        return await self._publishing.find_log_offsets(table_uuid, until)

    async def list_log_offsets(
        self, table_uuid: str, *, after: int = 0, until: int = 0, limit: int = 0
    ) -> list[SnapshotOffsets]:
        """Where each of some snapshots ends."""
        return await self._publishing.list_log_offsets(table_uuid, after, until, limit)

    async def find_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> dict[str, AttemptState]:
        """What has become of attempts."""
        return await self._publishing.find_attempts(table_uuid, attempt_ids)
