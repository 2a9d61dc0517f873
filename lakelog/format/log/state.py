"""What the metastore knows of a table's external log: its topic, and how far the table's history has been published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog.format.tables.table import TableName


@dataclass(frozen=True)
class LogInfo:
    """The log of a table with `log.system` = `kafka`.

    Args:
        table_uuid: The table.
        name: Its full name.
        topic: The topic that holds it.
        topic_id: The broker's own id of the topic as it was when the log began; empty: it was never seen.
        generation: From 1; rises when the log begins anew, in a topic made anew or from another snapshot on.
        starts_after: The log holds the snapshots behind this one; 0: all.
        is_named: The topic's name is the user's: it is never dropped.
        options: The table's options that begin with `log.` or `kafka.`; secrets are references.
        problem: Why it cannot be published now, for people; empty: nothing is known to be wrong.
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
        offsets: By partition: the next offset to read behind all of the snapshot's records (semantics 4.5). Of
            partitions that it does not touch those of the snapshot before it.
    """

    snapshot_id: int
    snapshot_uuid: str
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class PublishState:
    """How far a table's history has been published, as the publisher has told the metastore.

    The truth is the log's own position; this one may be behind it by what was published since the last report.

    Args:
        table_uuid: The table.
        generation: Of the log.
        snapshot_id: The last snapshot of which all is published; as `LogInfo.starts_after` before the first.
        snapshot_uuid: Its uuid; empty where there is none.
        next_index: Of the snapshot behind it, so many rows are published; 0: none.
        next_uuid: That snapshot's uuid; empty with 0 rows.
        offsets: As of `SnapshotOffsets`, of `snapshot_id`; empty before the first report.
        latest_snapshot_id: The table's newest snapshot.
        reported_at_ms: When the publisher reported last, by the database's clock; 0: never.
        holder: Who publishes; empty: nobody.
        problem: Why it stands still, as the publisher said; empty: it does not.
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


@dataclass(frozen=True)
class PublishReport:
    """What a publisher tells the metastore behind each transaction. Idempotent; what was told stays as it is.

    Args:
        table_uuid: The table.
        generation: Of the log; refused as diverged when it is another by now.
        epoch: Of the lease `to_publisher_lease(table_uuid)`; fenced when another holds it.
        snapshots: Those that are published as a whole, in rising order; may be empty.
        next_index: Rows published of the snapshot behind them, where it is published in pieces; else 0.
        next_uuid: That snapshot's uuid.
        problem: Why it stands still; empty: it does not.
        begins: By partition: where the first record of the generation stands or will stand, once nobody publishes the
            one before it any more. Told before the generation's first record is sent; empty: that is known.
    """

    table_uuid: str
    generation: int
    epoch: int
    snapshots: tuple[SnapshotOffsets, ...] = ()
    next_index: int = 0
    next_uuid: str = ""
    problem: str = ""
    begins: tuple[int, ...] = ()


def to_publisher_lease(table_uuid: str) -> str:
    """The name of the lease of who publishes a table. Pure."""
    return f"publisher/{table_uuid}"
