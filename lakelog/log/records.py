"""The contents of a log: records in columns, the snapshots they belong to, and how far a table is published."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Kinds = npt.NDArray[np.int8]
"""A code of `lakelog.format.types.rowkind.RowKind` for each record."""

SNAPSHOT_HEADER: Final = "snapshot"
"""The id of the record's snapshot, as decimal digits."""

UUID_HEADER: Final = "uuid"
"""That snapshot's uuid, 32 hexadecimal digits."""

ATTEMPT_HEADER: Final = "attempt"
"""For records that were sent before their commit (`eventual`), instead of the snapshot: the attempt's id."""

REPLACES_HEADER: Final = "replaces"
"""For records of `eventual` tables that were sent after their commit: the attempt of that commit, whose rows may be in
the topic already. Without it, no reader could know that they are the same rows, since their indexes differ."""

INDEX_HEADER: Final = "idx"
"""A record's place among all rows of its snapshot's log, from 0, as decimal digits. An update with its old row has the
place of the new row."""

KIND_HEADER: Final = "kind"
"""`+I`, `-U`, `+U` or `-D`."""

SEQUENCE_HEADER: Final = "sequence"
"""If the table has a `sequence.field`: its value as the format `json` writes it; several columns as a JSON array.

A tombstone has it nowhere else."""


@dataclass(frozen=True)
class EncodedRecords:
    """Records of one partition in their order, ready to send. Columns of the same length.

    Args:
        partition: The topic's partition; equal to the bucket if the table has buckets.
        keys: Binary, no NULL; None: records have no key, as in append tables.
        values: Binary; NULL is a tombstone.
        kinds: The row kind of each record.
        indexes: int64, strictly rising: see `INDEX_HEADER`.
        sequences: Binary; see `SEQUENCE_HEADER`; None: the table has no sequence field.
    """

    partition: int
    keys: pa.Array | None
    values: pa.Array
    kinds: Kinds
    indexes: npt.NDArray[np.int64]
    sequences: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class LogSnapshot:
    """The snapshot that records belong to.

    Args:
        snapshot_id: Its number.
        snapshot_uuid: Its uuid.
        replaces: `REPLACES_HEADER`; empty: no rows were sent before. lakelog writes it, and never reads it.
    """

    snapshot_id: int
    snapshot_uuid: str
    replaces: str = ""


@dataclass(frozen=True)
class LogPosition:
    """How far a table's history has been published.

    Args:
        snapshot_id: All snapshots before this one are in the log, or bring it no rows. 0: none is published.
        snapshot_uuid: Its uuid; empty for snapshot 0.
        next_index: Rows of this snapshot's log before this index (`INDEX_HEADER`) are in the log, the others are not;
            None: all are.
    """

    snapshot_id: int
    snapshot_uuid: str
    next_index: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the whole snapshot is in the log."""
        return self.next_index is None


NOTHING_PUBLISHED: Final = LogPosition(0, "")


@dataclass(frozen=True)
class FetchedRecords:
    """Records as they were read, in columns of the same length; those of one partition in rising offset.

    Args:
        partitions: int32.
        offsets: int64.
        timestamps_ms: int64, milliseconds since the epoch, as the broker appended them.
        keys: Binary; NULL if a record has none.
        values: Binary; NULL is a tombstone.
        kinds: Binary; the header `kind`; NULL if there is none, as in records of other programs.
        snapshot_ids: int64; the header `snapshot`; NULL if there is none.
        uuids: Binary; the header `uuid`.
        attempts: Binary; the header `attempt`.
        indexes: int64; the header `idx`.
        sequences: Binary; the header `sequence`.
    """

    partitions: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    timestamps_ms: npt.NDArray[np.int64]
    keys: pa.Array
    values: pa.Array
    kinds: pa.Array
    snapshot_ids: pa.Array
    uuids: pa.Array
    attempts: pa.Array
    indexes: pa.Array
    sequences: pa.Array

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass(frozen=True)
class TailRecord:
    """The last record of a partition that readers of committed records see.

    Args:
        partition: The partition.
        offset: The record's offset.
        snapshot: The snapshot that it belongs to; None: it has no header of ours.
        next_index: The index after its own `idx`.
    """

    partition: int
    offset: int
    snapshot: LogSnapshot | None
    next_index: int = 0


@dataclass(frozen=True)
class TopicSpec:
    """What a topic should be like.

    Args:
        name: 1 to 249 of `[A-Za-z0-9._-]`.
        partitions: At least 1.
        replication: The number of brokers that hold each partition.
        retention_ms: How long records are retained; None: for ever.
        compact: Retain the last record of each key, besides the retention (changelog mode `upsert`).
        max_record_bytes: The largest record, key and headers included.
    """

    name: str
    partitions: int
    replication: int = 1
    retention_ms: int | None = None
    compact: bool = False
    max_record_bytes: int = 1 << 20


@dataclass(frozen=True)
class TopicState:
    """The state of a topic.

    Args:
        name: The topic.
        topic_id: The broker's own id of it; a topic that was deleted and made again has another one.
        partitions: Their number.
        replication: The replicas of the partition that has the fewest.
        settings: The topic's settings by their Kafka names, defaults included.
    """

    name: str
    topic_id: str
    partitions: int
    replication: int
    settings: dict[str, str] = field(default_factory=dict)
