"""The metastore's state of a table's external log: its topic, and how far the table's history is published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lakelog.format.tables.table import TableName

RESTART_COMMAND: Final = "lakelog log restart"
"""Each problem of a log that only a restart solves names this command, for people."""

LOG_DIVERGED: Final = "LOG_DIVERGED"
"""The reason of a HistoryDiverged about log and table that do not belong together any more, for instance because the
topic was cut."""

LOG_AHEAD: Final = "LOG_AHEAD"
"""The reason of a HistoryDiverged about a log with snapshots that the table has lost: its metastore was restored."""

SNAPSHOT_UNKNOWN: Final = "SNAPSHOT_UNKNOWN"
"""The same, found by the metastore when a publisher reports."""


@dataclass(frozen=True)
class LogInfo:
    """The log of a table with `log.system` = `kafka`.

    Args:
        table_uuid: The table.
        name: Its full name.
        topic: The topic of the log.
        topic_id: The broker's own id of the topic when the log began; empty: it was never seen.
        generation: From 1; rises when the log restarts, in a new topic or from another snapshot on.
        starts_after: The log holds the snapshots after this one; 0: all.
        is_named: Whether the user named the topic: then it is never dropped.
        options: The table's options that begin with `log.` or `kafka.`; secrets are references.
        problem: Why it cannot be published now, for people; empty: no known problem.
    """

    table_uuid: str
    name: TableName
    topic: str
    topic_id: str
    generation: int
    starts_after: int
    is_named: bool
    options: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True)
class SnapshotOffsets:
    """Where a snapshot ends in the log.

    Args:
        snapshot_id: The snapshot.
        snapshot_uuid: Its uuid.
        offsets: By partition: the next offset to read after all of the snapshot's records (semantics 4.5). Partitions
            that it does not touch have the offsets of the snapshot before it.
        visible_at_ms: Since when, at the latest, readers of committed records see all of its records, by the database's
            clock; 0: not known. Only the metastore sets it.
    """

    snapshot_id: int
    snapshot_uuid: str
    offsets: tuple[int, ...]
    visible_at_ms: int = field(default=0, compare=False)


@dataclass(frozen=True)
class PublishState:
    """How far a table's history is published, as the publisher has reported it.

    The log's own position is authoritative; this one lags by what was published since the last report.

    Args:
        table_uuid: The table.
        generation: The generation of the log.
        snapshot_id: The last completely published snapshot; `LogInfo.starts_after` before the first.
        snapshot_uuid: Its uuid; empty if there is none.
        next_index: The number of published rows of the next snapshot; 0: none.
        next_uuid: That snapshot's uuid; empty with 0 rows.
        offsets: As of `SnapshotOffsets`, for `snapshot_id`; empty before the first report.
        latest_snapshot_id: The table's newest snapshot.
        reported_at_ms: When the publisher reported last, by the database's clock; 0: never.
        holder: The current publisher; empty: none.
        problem: Why it is stuck, as the publisher reported; empty: it is not.
        problem_reason: The reason of that error, for programs; empty: none, or an older publisher reported.
    """

    table_uuid: str
    generation: int
    snapshot_id: int
    snapshot_uuid: str
    next_index: int
    next_uuid: str
    offsets: tuple[int, ...]
    latest_snapshot_id: int
    reported_at_ms: int
    holder: str = ""
    problem: str = ""
    problem_reason: str = ""

    @property
    def needs_restart(self) -> bool:
        """Whether log and table do not belong together any more: people restore what was lost, or restart the log."""
        return bool(self.problem) and self.problem_reason in (LOG_DIVERGED, LOG_AHEAD, SNAPSHOT_UNKNOWN)

    @property
    def is_ahead(self) -> bool:
        """Whether the log has snapshots that the table has lost, so that only a restart of the log helps."""
        return bool(self.problem) and self.problem_reason in (LOG_AHEAD, SNAPSHOT_UNKNOWN)


@dataclass(frozen=True)
class PublishReport:
    """A publisher's report after each transaction. Idempotent; reported facts stay unchanged.

    Args:
        table_uuid: The table.
        generation: The generation of the log; refused as diverged if it is another one now.
        epoch: The epoch of the lease `to_publisher_lease(table_uuid)`; fenced if another process holds it.
        snapshots: The completely published ones, in rising order; may be empty.
        next_index: Published rows of the next snapshot, if it is published in parts; else 0.
        next_uuid: That snapshot's uuid.
        problem: Why it is stuck; empty: it is not.
        problem_reason: The reason of that error, for programs; empty: none.
        begins: By partition: where the first record of the generation is or will be, once no one publishes the previous
            generation any more. Reported before the generation's first record is sent; empty: known already.
        visible_now: Whether the caller has just committed the transaction that ends the snapshots, so that they became
            visible now; False: it found them published.
    """

    table_uuid: str
    generation: int
    epoch: int
    snapshots: tuple[SnapshotOffsets, ...] = ()
    next_index: int = 0
    next_uuid: str = ""
    problem: str = ""
    begins: tuple[int, ...] = ()
    problem_reason: str = ""
    visible_now: bool = False


def to_publisher_lease(table_uuid: str) -> str:
    """The name of the lease of a table's publisher. Pure."""
    return f"publisher/{table_uuid}"
