"""What the metastore does for the external logs of tables: a part of `lakelog.client.metastore.metastore.Metastore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakelog.client.metastore.topic_logs import TopicLogs
from lakelog.format.commit.facts import AttemptState
from lakelog.format.log.state import PublishReport, PublishState, SnapshotOffsets


class Logs(TopicLogs, Protocol):
    """Logs of tables, and how far they are published."""

    def get_publish_state(self, table_uuid: str) -> PublishState:
        """How far a table's log is published; NotFound as of `get_log`."""
        ...

    def report_published(self, report: PublishReport) -> None:
        """Writes down how far a log is published.

        Raises:
            Fenced: Another has the lease of the table's publisher.
            HistoryDiverged: A snapshot has another uuid, or the log another generation.
            NotFound: The table was dropped.
        """
        ...

    def find_log_offsets(self, table_uuid: str, *, until: int | None = None) -> SnapshotOffsets | None:
        """Where the newest snapshot whose offsets are known ends, at or before `until` (None: of all).

        With 0: where the log began, in a topic that had records already. Of the log's current generation alone; None:
        there is none.
        """
        ...

    def find_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> dict[str, AttemptState]:
        """What has become of attempts at a table, by which records are known that were sent before their commit.

        Args:
            table_uuid: The table.
            attempt_ids: 1 to 1000.

        Returns:
            OPEN: it may be committed yet. COMMITTED: `Snapshot.attempt_id` tells which snapshot it made, while that is
            kept. DOOMED: it was given up and will never be committed.
        """
        ...

    def list_log_offsets(
        self, table_uuid: str, *, after: int = 0, until: int = 0, limit: int = 0
    ) -> list[SnapshotOffsets]:
        """Where the snapshots behind `after` up to `until` (0: all) end, rising; those that are not known are left out.

        At most `limit`, at most 10,000; 0: 1000. Of the log's current generation alone.
        """
        ...
