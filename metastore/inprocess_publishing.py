"""How far external logs are published, in this process; see `metastore.inprocess`."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.format.commit.facts import AttemptState
from lakelog.format.log.state import PublishReport, PublishState, SnapshotOffsets

from .inprocess_dropped import Running


class InProcessPublishing:
    """The part of `InProcessMetastore` that is about publishing logs."""

    def get_publish_state(self: Running, table_uuid: str) -> PublishState:
        """How far a table's log is published."""
        return self.run(self.service.get_publish_state(table_uuid))

    def report_published(self: Running, report: PublishReport) -> None:
        """Writes down how far a log is published."""
        self.run(self.service.report_published(report))

    def find_log_offsets(self: Running, table_uuid: str, *, until: int | None = None) -> SnapshotOffsets | None:
        """Where the newest snapshot whose offsets are known ends."""
        return self.run(self.service.find_log_offsets(table_uuid, until=until))

    def list_log_offsets(
        self: Running, table_uuid: str, *, after: int = 0, until: int = 0, limit: int = 0
    ) -> list[SnapshotOffsets]:
        """Where each of some snapshots ends."""
        return self.run(self.service.list_log_offsets(table_uuid, after=after, until=until, limit=limit))

    def find_attempts(self: Running, table_uuid: str, attempt_ids: Sequence[str]) -> dict[str, AttemptState]:
        """What has become of attempts."""
        return self.run(self.service.find_attempts(table_uuid, attempt_ids))
