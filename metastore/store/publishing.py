"""What a store does for the publishing of external logs: a part of `metastore.store.transaction`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakelog.format.commit.facts import AttemptState
from lakelog.format.log.state import SnapshotOffsets
from lakelog.format.tables.snapshot import LogContent


@dataclass(frozen=True)
class Published:
    """How far a log is published, as its publisher reported.

    Args:
        generation: The log's generation.
        snapshot_id: All snapshots up to it are published.
        snapshot_uuid: Its uuid; empty where the log begins after it.
        next_index: How many rows of the next snapshot are published.
        next_uuid: That snapshot's uuid; empty if no rows are published.
        problem: Why publishing stands still; empty: it does not.
        reported_at_ms: When it was reported; set by the store.
        problem_reason: The reason of the problem's error; empty: none.
    """

    generation: int
    snapshot_id: int
    snapshot_uuid: str = ""
    next_index: int = 0
    next_uuid: str = ""
    problem: str = ""
    reported_at_ms: int = 0
    problem_reason: str = ""


@dataclass(frozen=True)
class AttemptSeen:
    """The facts about an attempt that readers of a log need.

    Args:
        state: Its state.
        opened_ms: When it was opened, in milliseconds since the epoch.
        quiet_ms: How long ago it was renewed, or opened if it never was.
        is_over: It is for a commit that was applied, or its writer has a higher epoch. So if it is not committed, it
            never will be.
    """

    state: AttemptState
    opened_ms: int
    quiet_ms: int
    is_over: bool


class PublishTransaction(Protocol):
    """The records that commits add to logs, and how far the logs are published. Times are by the database's clock."""

    async def find_sent_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> dict[str, AttemptSeen]:
        """Returns those attempts that were opened for the table, by their ids."""
        ...

    async def find_busy_attempts(self, attempt_ids: Sequence[str]) -> list[str]:
        """Returns those attempts whose commits are being decided at this moment, by any metastore; waits for nothing.

        An attempt that is just being aborted can be among them.
        """
        ...

    async def renew_attempts(self, attempt_ids: Sequence[str], owner: str | None) -> list[str]:
        """Notes that the writers of the attempts that are open have reported now; returns these attempts.

        It passes over attempts of other owners; None: it takes attempts of all owners.
        """
        ...

    async def set_log(self, table_id: int, log: LogContent) -> None:
        """Changes what the commits to a table, whose head is locked, must bring to its log."""
        ...

    async def find_published(self, table_id: int) -> Published | None:
        """How far a table's log is published, in any generation; None: there was no report."""
        ...

    async def lock_published(self, table_id: int) -> Published | None:
        """As `find_published`; no one else changes it before the transaction ends."""
        ...

    async def put_published(self, table_id: int, published: Published) -> None:
        """Records how far a log is published, with the time."""
        ...

    async def find_snapshot_uuids(self, table_id: int, snapshot_ids: Sequence[int]) -> dict[int, str]:
        """The uuids of those of the snapshots that exist."""
        ...

    async def insert_log_offsets(
        self, table_id: int, generation: int, snapshots: Sequence[SnapshotOffsets], *, visible_now: bool
    ) -> None:
        """Records where snapshots end in the log, and that they became visible now; a known entry stays as it is."""
        ...

    async def put_log_offsets(self, table_id: int, generation: int, snapshot: SnapshotOffsets) -> None:
        """Records where a snapshot ends in the log, in place of a known entry."""
        ...

    async def find_log_offsets(self, table_id: int, generation: int, until: int) -> SnapshotOffsets | None:
        """Where in the log the newest snapshot at or before `until` ends, among those with a known end."""
        ...

    async def list_log_offsets(
        self, table_id: int, generation: int, after: int, until: int, limit: int
    ) -> list[SnapshotOffsets]:
        """Where in the log the snapshots after `after` up to `until` end, rising; at most `limit`."""
        ...

    async def find_lease_holder(self, name: str) -> str:
        """The holder of a lease that has not expired; empty: no one holds it."""
        ...
