"""What the metastore does for the external logs of tables: a part of `lakelog.client.metastore.metastore.Metastore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakelog.client.metastore.topic_logs import TopicLogs
from lakelog.format.commit.facts import SentAttempt
from lakelog.format.log.state import PublishReport, PublishState, SnapshotOffsets


class Logs(TopicLogs, Protocol):
    """Logs of tables, and how far they are published."""

    def get_publish_state(self, table_uuid: str) -> PublishState:
        """How far a table's log is published.

        Raises:
            NotFound: The table was dropped, or has no log.
        """
        ...

    def report_published(self, report: PublishReport) -> None:
        """Stores how far a log is published.

        Raises:
            Fenced: Another process has the lease of the table's publisher.
            HistoryDiverged: A snapshot has another uuid, or the log another generation.
            NotFound: The table was dropped, or has no log.
            PermissionDenied: Another principal holds it.
        """
        ...

    def find_log_offsets(self, table_uuid: str, *, until: int | None = None) -> SnapshotOffsets | None:
        """The end offsets of the newest snapshot, at or before `until` (None: of all), whose offsets are known.

        A result with snapshot 0 gives the start of the log, in a topic that already had records. Only the log's current
        generation counts; None: no offsets are known.

        Raises:
            NotFound: The table was dropped, or has no log.
        """
        ...

    def find_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> dict[str, SentAttempt]:
        """Returns the states of attempts at a table. They decide about records that were sent before their commit.

        Args:
            table_uuid: The table.
            attempt_ids: 1 to 1000.

        Returns:
            OPEN: it can still be committed. COMMITTED: the snapshot with this `Snapshot.attempt_id` is its commit,
            while that snapshot is retained. ABORTED: it was given up or is not known, and will never be committed.

        Raises:
            NotFound: The table was dropped.
        """
        ...

    def renew_attempts(self, attempt_ids: Sequence[str]) -> list[str]:
        """Reports that the writers of 1 to 1000 attempts, which have sent rows early, are alive. Idempotent.

        Attempts of other principals are passed over.

        Returns:
            The attempts that are still open.
        """
        ...

    def list_log_offsets(
        self, table_uuid: str, *, after: int = 0, until: int = 0, limit: int = 0
    ) -> list[SnapshotOffsets]:
        """The known end offsets of the snapshots after `after` up to `until` (0: all), in rising order.

        At most `limit`, at most 10,000; 0: 1000. Only for the log's current generation.

        A snapshot that adds nothing to the log, such as a compaction or an overwrite, ends where the snapshot before it
        ends (semantics 4.5), even if no publisher reported it.

        Raises:
            NotFound: The table was dropped, or has no log.
        """
        ...
